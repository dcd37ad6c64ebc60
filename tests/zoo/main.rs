//! The models of the zoo (`scripts/zoo.sh --keep DIR`), which lie in the folder that LOCKSTEP_ZOO names: a mistake in any one
//! operator's oracle turns exactly the models red that use it, and `zoo.sh` says so when something is wrong. Run with
//!
//! ```text
//! scripts/zoo.sh --dozen --keep target/zoo && LOCKSTEP_ZOO=target/zoo cargo test --release --test zoo -- --ignored
//! ```

#[path = "../common/mod.rs"]
mod common;

mod dumps;
mod faults;
mod script;
mod ties;
