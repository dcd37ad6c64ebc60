//! Without a CUDA driver every command that is asked for one says so in a sentence, and exits with 2 before it does anything else.
#![allow(clippy::print_stderr)] // what is skipped is said

mod common;

use common::lockstep;
use lockstep::engine::gpu::{Device, DeviceOptions, Driver, GpuError};

/// Standard error of a command that must fail; none where there is a driver.
fn refusal(args: &[&str]) -> Option<String> {
    match Device::open(&DeviceOptions::new(Driver::Cuda)) {
        Err(GpuError::NoDriver) => {}
        other => {
            let found = other.and_then(|device| device.name()).unwrap_or_else(|error| error.to_string());
            eprintln!(
                "SKIPPED: there is a CUDA driver here ({found}); what is said without one cannot be seen"
            );
            return None;
        }
    }
    let outcome = lockstep(args);
    assert_eq!(outcome.code, Some(2), "{args:?}: {}", outcome.stdout);
    assert!(outcome.stdout.is_empty(), "{args:?} printed a result");
    Some(outcome.stderr)
}

#[test]
fn every_command_says_what_is_missing() {
    let model = common::micro();
    let model = model.path.to_str().unwrap();
    let case = common::case_folder("micro-bonsai");
    for args in [
        &["check", case.to_str().unwrap(), "--engine", "cuda"][..],
        &["run", model, "--tokens", "1,2", "--engine", "cuda"],
        &["invariants", model, "--engine", "cuda"],
        &["bench", "kernels"],
        &["bench", "model", "--engine", "cuda"],
    ] {
        let Some(said) = refusal(args) else { return };
        let expected = "error: no CUDA driver on this machine (libcuda.so.1 not found): install NVIDIA's driver, version 580 or newer, or \
                        run the kernels on the CPU with the simt engine\n";
        assert_eq!(said, expected, "{args:?}");
    }
}
