//! bad_control.cu: threads that do not do together what they must, and threads that never come to an end.

use super::Argument::{Fresh, Scalar, Zeros};
use super::Fast::Names;
use super::{Bug, threads};

const SPINS: &str = "spins: lets no other thread of its block run for";
const ENDLESS: &str = "runs without an end: its block has taken more than";

pub(crate) fn control() -> Vec<Bug> {
    let bug =
        |kernel, what, shape, arguments, checked, fast| Bug { kernel, what, shape, arguments, checked, fast };
    vec![
        bug(
            "bad_barrier_in_branch",
            "a barrier that some threads do not reach",
            threads(64),
            vec![Fresh(64)],
            &["__syncthreads at bad_control.cu:"],
            Names("__syncthreads at bad_control.cu:"),
        ),
        bug(
            "bad_two_barriers",
            "threads at two different barriers",
            threads(64),
            vec![Fresh(64)],
            &["divergent barrier: reaches __syncthreads at bad_control.cu:"],
            Names("divergent barrier: reaches __syncthreads at bad_control.cu:"),
        ),
        bug(
            "bad_shuffle_in_branch",
            "a shuffle that some lanes do not reach",
            threads(32),
            vec![Fresh(32)],
            &["warp operation "],
            Names("warp operation "),
        ),
        bug(
            "bad_shuffle_mask",
            "a shuffle by a lane that its mask leaves out",
            threads(32),
            vec![Fresh(32)],
            &["mask 0000ffff does not include the calling lane"],
            Names("mask 0000ffff does not include the calling lane"),
        ),
        bug(
            "bad_shuffle_against_barrier",
            "lanes at a shuffle, others at a barrier",
            threads(32),
            vec![Fresh(32)],
            &["threads wait for each other forever: [warp 0 lanes 0000ffff in a warp operation"],
            Names("threads wait for each other forever: [warp 0 lanes 0000ffff in a warp operation"),
        ),
        bug(
            "bad_divide",
            "an integer division by zero",
            threads(32),
            vec![Fresh(32), Scalar(0)],
            &["integer division by zero"],
            Names("integer division by zero"),
        ),
        bug(
            "bad_assert",
            "an assertion that does not hold",
            threads(32),
            vec![Fresh(32), Scalar(31)],
            &["assertion failed: (int)blockDim.x <= n at bad_control.cu:"],
            Names("assertion failed: (int)blockDim.x <= n at bad_control.cu:"),
        ),
        bug(
            "bad_spin_on_flag",
            "a thread that waits for another's flag, by atomic operations",
            threads(64),
            vec![Fresh(64), Zeros(64)],
            &[SPINS],
            Names(SPINS),
        ),
        bug(
            "bad_spin_on_volatile",
            "the same by volatile reads",
            threads(64),
            vec![Fresh(64), Zeros(64)],
            &[SPINS],
            Names(SPINS),
        ),
        bug(
            "bad_endless",
            "an endless loop",
            threads(32),
            vec![Fresh(32), Scalar(1)],
            &[SPINS],
            Names(SPINS),
        ),
        bug(
            "bad_endless_barriers",
            "an endless loop with a barrier in it",
            threads(64),
            vec![Fresh(64), Scalar(1)],
            &[ENDLESS],
            Names(ENDLESS),
        ),
        bug(
            "bad_endless_shuffles",
            "an endless loop with a shuffle in it",
            threads(64),
            vec![Fresh(64), Scalar(1)],
            &[ENDLESS],
            Names(ENDLESS),
        ),
    ]
}
