//! How many registers a kernel may take: as many as leave room for the warps that hide its waiting.
//!
//! A multiprocessor has 65536 registers on every architecture from sm_80 on. A kernel of `threads` per block that wants `warps` of them
//! resident needs `b = ceil(32 warps / threads)` blocks at a time, so a thread may take `65536 / (b threads)` registers, rounded down
//! to the 8 that registers are handed out by, and 255 at most.
//!
//! The warps follow from Little's law. Device memory of an H200 answers after some 700 ns and brings 4.8 TB/s, 36 GB/s to each of 132
//! multiprocessors: 25 kB must be on their way to each one at any time. A thread that waits for 32 bytes (two loads of 16, which
//! kernels that go over their data once have) makes 1 kB for a warp, so 25 warps are needed: [`STREAM`] asks for 32. Where a thread has
//! 64 bytes or more on their way, because it holds tiles, rows or a state in registers, 13 are needed: [`HOLD`] asks for 16. Tiles of
//! tensor cores keep less in registers and wait for shared memory: [`TILES`] asks for 24.

/// Registers of a multiprocessor.
const REGISTERS: usize = 65536;
/// Registers are handed out to a thread by so many.
const UNIT: usize = 8;
/// The most that a thread can have.
const MOST: usize = 255;
const WARP: usize = 32;

/// Warps that kernels need which go over their data once.
const STREAM: usize = 32;
/// Warps that tiles of tensor cores need.
const TILES: usize = 24;
/// Warps that kernels need which hold much in registers.
const HOLD: usize = 16;

/// What is intended for the kernels of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// The stem of the file.
    pub file: &'static str,
    /// Threads of the largest block that its launcher asks for.
    pub threads: usize,
    /// Warps that a multiprocessor must be able to run at a time.
    pub warps: usize,
}

impl Budget {
    /// Blocks that a multiprocessor must be able to run at a time.
    pub fn blocks(&self) -> usize {
        (self.warps * WARP).div_ceil(self.threads)
    }

    /// The registers that a thread may take.
    pub fn registers(&self) -> usize {
        (REGISTERS / (self.blocks() * self.threads) / UNIT * UNIT).min(MOST)
    }
}

const fn budget(file: &'static str, threads: usize, warps: usize) -> Budget {
    Budget { file, threads, warps }
}

/// One line for each file of kernels.
pub const BUDGETS: &[Budget] = &[
    budget("argmax", 256, STREAM),
    budget("attention", 256, STREAM),
    budget("attn_combine_fold", 512, HOLD),
    budget("binary", 256, STREAM),
    budget("copy", 256, STREAM),
    budget("delta_net_chunked", 256, HOLD),
    budget("delta_net_step", 256, HOLD),
    budget("flash_attn_decode", 256, HOLD),
    budget("flash_attn_prefill", 256, HOLD),
    budget("fold", 1024, STREAM),
    budget("gated_delta_net", 128, HOLD),
    budget("gated_norm_fold", 1024, STREAM),
    budget("get_rows", 128, STREAM),
    budget("get_rows_unfold", 1024, STREAM),
    budget("glu", 256, STREAM),
    budget("kv_append", 256, STREAM),
    budget("matrices", 256, STREAM),
    budget("mul_mat", 256, HOLD),
    budget("mul_mat_q8_1", 256, TILES),
    budget("mul_mat_vec", 256, HOLD),
    budget("mul_mat_vec_digits", 256, HOLD),
    budget("mul_mat_vec_q8_1", 256, HOLD),
    budget("mul_mat_vec_split", 256, HOLD),
    budget("norm", 1024, STREAM),
    budget("products", 256, STREAM),
    budget("qkv_rope_append", 128, STREAM),
    budget("quantize_digits", 64, STREAM),
    budget("quantize_q8_1", 256, STREAM),
    budget("rms_norm_fold", 1024, STREAM),
    budget("rope", 128, STREAM),
    budget("sigmoid_gate_fold", 1024, STREAM),
    budget("solve_tri", 256, STREAM),
    budget("ssm_conv", 256, STREAM),
    budget("swiglu_fold", 1024, STREAM),
    budget("top_k", 256, STREAM),
    budget("unary", 256, STREAM),
];

/// The budget of a file, by its stem.
pub fn budget_of(file: &str) -> Option<&'static Budget> {
    BUDGETS.iter().find(|budget| budget.file == file)
}

#[cfg(test)]
mod tests {
    use super::super::launch::KERNELS;
    use super::*;

    #[test]
    fn every_file_has_a_budget() {
        assert_eq!(BUDGETS.iter().map(|budget| budget.file).collect::<Vec<_>>(), KERNELS);
    }

    #[test]
    fn limits_written_out() {
        // 2 blocks of 256: 65536 / 512; 1 block of 1024: 65536 / 1024; 3 blocks of 256: 85, of which 80 are handed out
        let limits =
            [budget("", 256, HOLD), budget("", 1024, STREAM), budget("", 256, TILES), budget("", 64, 1)];
        assert_eq!(limits.map(|limit| limit.registers()), [128, 64, 80, 255]);
    }

    #[test]
    fn the_blocks_of_every_kernel_fit_the_smallest_multiprocessor() {
        for budget in BUDGETS {
            // sm_120 and sm_121 run 1536 threads and 24 blocks at a time
            let (threads, blocks) = (budget.blocks() * budget.threads, budget.blocks());
            assert!(threads <= 1536 && blocks <= 24, "{budget:?}");
        }
    }
}
