//! lockstep: a differential correctness harness for LLM engines.
//!
//! It runs an engine side by side with llama.cpp and compares every named tensor of the forward
//! pass. The modules form a chain; each imports only from those above it in this list
//! (`tests/layering.rs` checks that).

pub mod tensor;

pub mod quant;

pub mod gguf;

pub mod arithmetic;

pub mod ops;

pub mod dump;

pub mod model;

pub mod synth;

pub mod engine;

pub mod bench;

pub mod compare;

pub mod replay;

pub mod harness;

pub mod question;

pub mod report;

pub mod cli;
