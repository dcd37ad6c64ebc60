//! llama.cpp's own arithmetic: every committed dump of a model has the bits that its build gives, node by node and from tokens to
//! logits; and another order of operations, another place of an epsilon or another rounding shows at exactly the operator that
//! has it.

#[path = "../common/mod.rs"]
mod common;

mod engine;
mod mistakes;
mod nodes;
mod sizes;
