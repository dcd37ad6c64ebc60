//! The routes of the delta net against each other, against the oracle, and against what llama.cpp's own graph of plain operators
//! gave. Every limit is a bound: the route itself is run on numbers that carry theirs.

mod case;
mod golden;
mod routes;
mod tracked;
