//! The planted bugs of bad_*.cu: how each is launched, and what the emulator must say of it.

use crate::library::Shape;

/// How the fast flavour takes a bug.
pub(crate) enum Fast {
    /// It says this, in every order.
    Names(&'static str),
    /// Values are wrong in every order, or it says something.
    Wrong,
    /// It does not notice, not in every order at least.
    Misses,
}
use Fast::{Misses, Names, Wrong};

/// An argument of a kernel. What the first one points to is looked at afterwards.
pub(crate) enum Argument {
    /// Memory for as many floats that nothing was written to.
    Fresh(usize),
    Zeros(usize),
    Ones(usize),
    Scalar(u64),
}
use Argument::{Fresh, Ones, Scalar, Zeros};

pub(crate) struct Bug {
    pub(crate) kernel: &'static str,
    /// What is wrong with it, for the README.
    pub(crate) what: &'static str,
    pub(crate) shape: Shape,
    pub(crate) arguments: Vec<Argument>,
    /// One of these is in what the checked flavour says.
    pub(crate) checked: &'static [&'static str],
    pub(crate) fast: Fast,
}

/// What a kernel without its bug would give, where the fast flavour may run it to the end: its first value, all others.
pub(crate) const RIGHT: &[(&str, [f32; 2])] = &[
    ("bad_wht_no_sync", [32.0, 0.0]),
    ("bad_reduce_no_sync", [256.0, 256.0]),
    ("bad_reuse_no_sync", [2.0, 2.0]),
    ("bad_no_syncwarp", [1.0, 1.0]),
    ("bad_copy_no_wait", [1.0, 1.0]),
    ("bad_copy_wrong_wait", [1.0, 1.0]),
    ("bad_copy_no_barrier", [1.0, 1.0]),
    ("bad_uninitialised_shared", [1.0, 1.0]),
    ("bad_uninitialised_device", [1.0, 1.0]),
    ("bad_ldmatrix_uninitialised", [1.0, 1.0]),
];

const RACE: &str = "data race: ";
const FRESH_SHARED: &str = "read of uninitialised shared memory";
const COPYING: &str = "shared memory that a cp.async still writes";
const SPINS: &str = "spins: lets no other thread of its block run for";
const ENDLESS: &str = "runs without an end: its block has taken more than";

fn threads(n: u32) -> Shape {
    Shape::new(1, n)
}

pub(crate) fn accesses() -> Vec<Bug> {
    let bug =
        |kernel, what, shape, arguments, checked, fast| Bug { kernel, what, shape, arguments, checked, fast };
    vec![
        bug(
            "bad_wht_no_sync",
            "stages of a transform without a barrier in between",
            threads(256).dynamic(4096),
            vec![Ones(1024)],
            &[RACE],
            Wrong,
        ),
        bug(
            "bad_reduce_no_sync",
            "partial sums read without a barrier",
            threads(256),
            vec![Fresh(1), Ones(256)],
            &[RACE, FRESH_SHARED],
            Wrong,
        ),
        bug(
            "bad_reuse_no_sync",
            "shared memory written again while others may read it",
            threads(64),
            vec![Fresh(64), Ones(64)],
            &[RACE],
            Wrong,
        ),
        bug(
            "bad_no_syncwarp",
            "another lane's write read without `__syncwarp`",
            threads(32),
            vec![Fresh(32), Ones(32)],
            &[RACE, FRESH_SHARED],
            Wrong,
        ),
        bug(
            "bad_sum_without_atomic",
            "a sum over threads without an atomic operation",
            Shape::new(4, 64),
            vec![Zeros(1), Ones(256)],
            &[RACE],
            Misses,
        ),
        bug(
            "bad_write_past_end",
            "a write behind a buffer of 400 bytes",
            threads(128),
            vec![Fresh(100), Scalar(100)],
            &["out-of-bounds write of 4 bytes: 0 bytes past the end of a device buffer of 400 bytes"],
            Names("out-of-bounds write: 0 bytes past the end of a device buffer of 400 bytes"),
        ),
        bug(
            "bad_write_past_end",
            "a write behind a buffer of 404 bytes, which is no multiple of 16",
            threads(128),
            vec![Fresh(101), Scalar(101)],
            &["out-of-bounds write of 4 bytes: 0 bytes past the end of a device buffer of 404 bytes"],
            Names("a thread wrote past the end of a device buffer of 404 bytes"),
        ),
        bug(
            "bad_read_before_start",
            "a read before a buffer",
            Shape::new(4, 256),
            vec![Fresh(1024), Ones(1024)],
            &["out-of-bounds read of 4 bytes: 4 bytes before the start of a device buffer of 4096 bytes"],
            Names("out-of-bounds read: 4 bytes before the start of a device buffer of 4096 bytes"),
        ),
        bug(
            "bad_index_overflow",
            "an index beyond 2^31",
            threads(64),
            vec![Fresh(64), Scalar(70_000_000)],
            &["out-of-bounds write of 4 bytes: "],
            Names("out-of-bounds write: "),
        ),
        bug(
            "bad_misaligned",
            "a vector load that is not aligned",
            threads(32),
            vec![Fresh(32), Ones(64)],
            &["misaligned "],
            Misses,
        ),
        bug(
            "bad_uninitialised_shared",
            "shared memory read that nobody wrote",
            threads(64),
            vec![Fresh(64)],
            &["read of uninitialised shared memory: never written by this block"],
            Wrong,
        ),
        bug(
            "bad_uninitialised_device",
            "device memory read that nobody wrote",
            threads(64),
            vec![Fresh(64), Fresh(64)],
            &["read of uninitialised device memory: offset "],
            Wrong,
        ),
        bug(
            "bad_shared_index",
            "an index beyond a shared array, into the next one",
            threads(64),
            vec![Fresh(64)],
            &[" out of bounds"],
            Misses,
        ),
        bug(
            "bad_dynamic_shared",
            "dynamic shared memory beyond what was launched",
            threads(64).dynamic(252),
            vec![Fresh(64)],
            &["out-of-bounds write of 4 bytes: it is at offset 252 of 252 bytes of dynamic shared memory"],
            Names("a thread wrote past the end of dynamic shared memory"),
        ),
        bug(
            "bad_big_local",
            "more local memory than a stack has (about 100 KiB)",
            threads(64),
            vec![Fresh(64), Scalar(40000)],
            &["stack overflow: too much local memory"],
            Names("stack overflow: too much local memory"),
        ),
    ]
}

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

pub(crate) fn matrices() -> Vec<Bug> {
    let bug =
        |kernel, what, shape, arguments, checked, fast| Bug { kernel, what, shape, arguments, checked, fast };
    vec![
        bug(
            "bad_ldmatrix_row",
            "a row of ldmatrix that is not aligned",
            threads(32).dynamic(1024),
            vec![Fresh(32), Ones(256)],
            &["misaligned row of ldmatrix at address "],
            Names("misaligned row of ldmatrix at address "),
        ),
        bug(
            "bad_ldmatrix_past_end",
            "a row of ldmatrix behind shared memory",
            threads(32).dynamic(512),
            vec![Fresh(32), Ones(128)],
            &["out-of-bounds row of ldmatrix: it is at offset 512 of 512 bytes of dynamic shared memory"],
            Names("out-of-bounds row of ldmatrix: it is at offset 512 of 512 bytes of dynamic shared memory"),
        ),
        bug(
            "bad_ldmatrix_uninitialised",
            "ldmatrix of shared memory that nobody wrote",
            threads(32).dynamic(512),
            vec![Fresh(32), Ones(128)],
            &[FRESH_SHARED],
            Wrong,
        ),
        bug(
            "bad_ldmatrix_no_sync",
            "ldmatrix of other lanes' writes without `__syncwarp`",
            threads(32).dynamic(512),
            vec![Fresh(32), Ones(128)],
            &[RACE],
            Misses,
        ),
        bug(
            "bad_mma_in_branch",
            "an mma that some lanes do not reach",
            threads(32),
            vec![Fresh(32)],
            &["warp operation "],
            Names("warp operation "),
        ),
        bug(
            "bad_two_mmas",
            "lanes at two different mma",
            threads(32),
            vec![Fresh(32)],
            &["divergent warp operation: is at bad_matrix.cu:"],
            Names("divergent warp operation: is at bad_matrix.cu:"),
        ),
        bug(
            "bad_copy_no_wait",
            "what cp.async copies read without a wait",
            threads(32).dynamic(512),
            vec![Fresh(32), Ones(128)],
            &[COPYING],
            Wrong,
        ),
        bug(
            "bad_copy_wrong_wait",
            "a wait for the wrong group of copies",
            threads(32).dynamic(512),
            vec![Fresh(32), Ones(128)],
            &[COPYING],
            Wrong,
        ),
        bug(
            "bad_copy_no_barrier",
            "other threads' copies read without a barrier",
            threads(32).dynamic(512),
            vec![Fresh(32), Ones(128)],
            &[RACE, COPYING, FRESH_SHARED],
            Wrong,
        ),
        bug(
            "bad_copy_over_readers",
            "a copy over what others may still read",
            threads(32).dynamic(512),
            vec![Fresh(32), Ones(256)],
            &[RACE, COPYING],
            Misses,
        ),
        bug(
            "bad_copy_misaligned",
            "a copy that is not aligned",
            threads(32).dynamic(512),
            vec![Fresh(32), Ones(133)],
            &["misaligned cp.async from address "],
            Names("misaligned cp.async from address "),
        ),
        bug(
            "bad_copy_past_end",
            "a copy from behind a buffer",
            threads(32).dynamic(512),
            vec![Fresh(32), Ones(128)],
            &["out-of-bounds read of 1 bytes: 0 bytes past the end of a device buffer of 512 bytes"],
            Names("out-of-bounds read: 0 bytes past the end of a device buffer of 512 bytes"),
        ),
    ]
}
