//! Arguments of kernels.

use bytemuck::Pod;

use super::{Part, PartMut};

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// `const T*`, letter `r`.
    Read(u64),
    /// `T*`, letter `w`; may stand where a kernel only reads.
    Write(u64),
    /// `int`, letter `i`. Sizes are `int` in kernels.
    I32(i32),
    /// `u32`, letter `u`.
    U32(u32),
    /// `float`, letter `f`.
    F32(f32),
}

impl Arg {
    pub(super) fn letter(&self) -> char {
        match self {
            Arg::Read(_) => 'r',
            Arg::Write(_) => 'w',
            Arg::I32(_) => 'i',
            Arg::U32(_) => 'u',
            Arg::F32(_) => 'f',
        }
    }
}

impl From<f32> for Arg {
    fn from(value: f32) -> Arg {
        Arg::F32(value)
    }
}

impl From<u32> for Arg {
    fn from(value: u32) -> Arg {
        Arg::U32(value)
    }
}

impl From<i32> for Arg {
    fn from(value: i32) -> Arg {
        Arg::I32(value)
    }
}

impl From<usize> for Arg {
    fn from(value: usize) -> Arg {
        Arg::I32(i32::try_from(value).expect("launchers keep sizes below 2^31"))
    }
}

impl<T: Pod> From<Part<'_, T>> for Arg {
    fn from(part: Part<'_, T>) -> Arg {
        Arg::Read(part.address())
    }
}

impl<T: Pod> From<&Part<'_, T>> for Arg {
    fn from(part: &Part<'_, T>) -> Arg {
        Arg::Read(part.address())
    }
}

impl<T: Pod> From<&mut PartMut<'_, T>> for Arg {
    fn from(part: &mut PartMut<'_, T>) -> Arg {
        Arg::Write(part.address())
    }
}

impl<T: Pod> From<PartMut<'_, T>> for Arg {
    fn from(part: PartMut<'_, T>) -> Arg {
        Arg::Write(part.address())
    }
}
