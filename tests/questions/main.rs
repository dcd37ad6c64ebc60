//! Questions: every committed dump of llama.cpp is answered right, and every wrong candidate is named.

#[path = "../common/mod.rs"]
mod common;

mod committed;
mod exceptions;
mod run;
mod unasked;
mod wrong;
