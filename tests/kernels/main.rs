//! Every kernel against its oracle, on the emulator that watches each access, with threads in every order.
//!
//! LOCKSTEP_DRIVER=cuda runs the same on a GPU; LOCKSTEP_DRIVER=/a/libsimt.so on a library built of changed kernels.

mod binary;
mod copy;
mod fold;
mod glu;
mod norm;
mod support;
mod unary;
