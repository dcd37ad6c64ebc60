//! The emulator of kernels/simt: kernels with planted bugs, which it must name; correct ones; the driver that it poses as.
//!
//! The library is built of the kernels beside this file, in both flavours, and called directly: cudarc has one driver in a process.
#![cfg(all(feature = "simt", target_arch = "x86_64", target_os = "linux"))]

mod bugs;
mod driver;
mod library;
mod matrix;
mod planted;
mod vocabulary;
mod watchdog;
