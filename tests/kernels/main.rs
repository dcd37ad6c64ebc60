//! Every kernel against its oracle, on the emulator that watches each access, with threads in every order.
//!
//! LOCKSTEP_DRIVER=cuda runs the same on a GPU; LOCKSTEP_DRIVER=/a/libsimt.so on a library built of changed kernels.

mod binary;
mod copy;
mod fold;
mod glu;
mod norm;
mod attention;
mod cells;
mod gated_delta_net;
mod kv_append;
mod rope;
mod ssm_conv;
mod support;
mod unary;
