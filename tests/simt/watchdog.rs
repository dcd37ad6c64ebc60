//! The watchdog stops what spins (planted.rs), and nothing else.

use std::time::{Duration, Instant};

use crate::library::{Flavour, ORDERS, Shape, WATCHDOG_SECONDS, emulator, everywhere};

#[test]
fn a_kernel_with_many_barriers_is_left_alone() {
    everywhere(|emulator, order| {
        let out = emulator.fresh::<f32>(64);
        emulator.launch("slow", Shape::new(1, 64), &[out.arg(), 10_000], order).unwrap();
        assert_eq!(out.read(), [10_000.0; 64]);
    });
}

/// One launch after another, for longer than one of them might take.
#[test]
fn many_launches_are_left_alone() {
    let out = emulator(Flavour::Fast).fresh::<f32>(64);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs_f64(20.0 * WATCHDOG_SECONDS) {
        emulator(Flavour::Fast).launch("slow", Shape::new(8, 64), &[out.arg(), 1000], ORDERS[0]).unwrap();
    }
}
