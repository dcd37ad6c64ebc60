//! Every kernel against its oracle, on the emulator that watches each access, with threads in every order.
//!
//! LOCKSTEP_DRIVER=cuda runs the same on a GPU; LOCKSTEP_DRIVER=/a/libsimt.so on a library built of changed kernels.

mod argmax;
mod attention;
mod attn_combine_fold;
mod binary;
mod cells;
mod copy;
mod delta_net_chunked;
mod delta_net_step;
mod flash;
mod flash_attn_decode;
mod flash_attn_prefill;
mod fold;
mod gated_delta_net;
mod gated_norm_fold;
mod get_rows;
mod get_rows_unfold;
mod glu;
mod kv_append;
mod matrices;
mod mul_mat;
mod mul_mat_q8_1;
mod mul_mat_vec;
mod mul_mat_vec_digits;
mod mul_mat_vec_q8_1;
mod mul_mat_vec_split;
mod mutants;
mod norm;
mod products;
mod qkv_rope_append;
mod quantize_digits;
mod quantize_q8_1;
mod rms_norm_fold;
mod rope;
mod sigmoid_gate_fold;
mod solve_tri;
mod ssm_conv;
mod support;
mod swiglu_fold;
mod top_k;
mod unary;
mod weights;
