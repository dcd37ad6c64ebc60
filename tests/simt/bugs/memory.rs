//! bad_memory.cu: accesses out of bounds, misaligned, of memory that nothing was written to, and races.

use super::Argument::{Fresh, Ones, Scalar, Zeros};
use super::Fast::{Misses, Names, Wrong};
use super::{Bug, FRESH_SHARED, RACE, threads};
use crate::library::Shape;

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
