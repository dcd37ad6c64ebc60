//! The planted bugs of bad_*.cu: how each is launched, and what the emulator must say of it.

mod control;
mod matrix;
mod memory;

pub(crate) use control::control;
pub(crate) use matrix::matrices;
pub(crate) use memory::accesses;

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

/// An argument of a kernel. What the first one points to is looked at afterwards.
pub(crate) enum Argument {
    /// Memory for as many floats that nothing was written to.
    Fresh(usize),
    Zeros(usize),
    Ones(usize),
    Scalar(u64),
}

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

fn threads(n: u32) -> Shape {
    Shape::new(1, n)
}
