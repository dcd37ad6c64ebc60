//! bad_matrix.cu: ldmatrix, mma and cp.async.

use super::Argument::{Fresh, Ones};
use super::Fast::{Misses, Names, Wrong};
use super::{Bug, FRESH_SHARED, RACE, threads};

const COPYING: &str = "shared memory that a cp.async still writes";

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
