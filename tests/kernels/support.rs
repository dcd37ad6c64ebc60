//! Devices in every order of threads, values, and the comparison with what was computed in [`Tracked`] numbers.

use std::env;

use lockstep::compare::budget;
use lockstep::engine::gpu::{Device, DeviceOptions, Driver, Flavour, Order};
use lockstep::ops::Tracked;

/// Runs a check with the threads of kernels in every order that the emulator has.
pub(crate) fn in_every_order(check: impl Fn(&Device)) {
    let driver = match env::var("LOCKSTEP_DRIVER") {
        Err(_) => Driver::Simt(Flavour::Checked),
        Ok(name) if name == "cuda" => Driver::Cuda,
        Ok(path) => Driver::Simt(Flavour::At(path.into())),
    };
    let device = Device::open(&DeviceOptions::new(driver.clone())).unwrap();
    let orders = match driver {
        Driver::Cuda => &[Order::Forward][..],
        Driver::Simt(_) => &[Order::Forward, Order::Reverse, Order::Random(1), Order::Random(2)],
    };
    for &order in orders {
        Device::set_schedule(order, 1);
        check(&device);
    }
}

/// `n` values between -1 and 1, the same for the same seed.
pub(crate) fn values(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(n).collect()
}

/// The values as numbers that nothing was done to.
pub(crate) fn given(values: &[f32]) -> Vec<Tracked> {
    values.iter().map(|&x| Tracked::exact(f64::from(x))).collect()
}

/// Asserts that rounding explains every difference from what was computed in [`Tracked`] numbers.
#[track_caller]
pub(crate) fn assert_rounded(what: &str, actual: &[f32], exact: &[Tracked]) {
    assert_eq!(actual.len(), exact.len(), "{what}: number of values");
    assert!(!actual.is_empty(), "{what}: nothing was compared");
    for (i, (&actual, exact)) in actual.iter().zip(exact).enumerate() {
        let (error, limit) = ((f64::from(actual) - exact.value()).abs(), budget(exact.spread(), 1.0));
        assert!(
            error <= limit,
            "{what}: {actual} at {i}, exactly {}, off by {error:.2e}, at most {limit:.2e}",
            exact.value()
        );
    }
}

/// Asserts equality of every bit.
#[track_caller]
pub(crate) fn assert_same_bits(what: &str, actual: &[f32], expected: &[f32]) {
    assert_eq!(actual.len(), expected.len(), "{what}: number of values");
    for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
        assert_eq!(a.to_bits(), e.to_bits(), "{what}: {a} at {i}, expected {e}");
    }
}
