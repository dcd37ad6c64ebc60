//! Every kernel touches the bytes that its model says, and no byte more often than it says.
//!
//! The emulator that watches each access counts them; the models are those of `engine::gpu::cost`.

mod attention;
#[allow(dead_code)] // what checks of values need
#[path = "../kernels/cells.rs"]
mod cells;
mod delta_net;
mod elements;
mod folds;
mod matrices;
mod products;
mod rows;

use std::cell::RefCell;
use std::collections::BTreeSet;

use lockstep::engine::gpu::cost::{Sizes, model};
use lockstep::engine::gpu::{
    Buffer, Device, DeviceOptions, Driver, Flavour, GpuError, budget_of, counted, kernels,
};

/// Launches, and which kernels were among them.
struct Bench {
    device: Device,
    seen: RefCell<BTreeSet<String>>,
    wrong: RefCell<Vec<String>>,
}

impl Bench {
    /// `n` values on the device.
    fn values(&self, n: usize) -> Buffer<f32> {
        let values: Vec<f32> = (0..n).map(|i| (i * 7919 % 1009) as f32 / 504.5 - 1.0).collect();
        self.device.upload(&values).unwrap()
    }

    fn ids(&self, ids: impl IntoIterator<Item = usize>) -> Buffer<i32> {
        self.device.upload(&ids.into_iter().map(|id| id as i32).collect::<Vec<_>>()).unwrap()
    }

    fn signs(&self, n: usize) -> Buffer<i8> {
        self.device.upload(&(0..n).map(|i| if i % 3 == 0 { -1 } else { 1 }).collect::<Vec<i8>>()).unwrap()
    }

    fn room(&self, n: usize) -> Buffer<f32> {
        self.device.alloc(n).unwrap()
    }

    /// A launcher whose kernels all have these sizes.
    fn check(&self, sizes: Sizes, launch: impl FnOnce() -> Result<(), GpuError>) {
        self.check_each(|_| sizes, launch);
    }

    /// A launcher of several kernels: the sizes of each, by its number.
    fn check_each(&self, sizes: impl Fn(usize) -> Sizes, launch: impl FnOnce() -> Result<(), GpuError>) {
        let all = counted(|| launch().unwrap());
        assert!(!all.is_empty(), "nothing was counted");
        for (i, counts) in all.iter().enumerate() {
            let (sizes, model) = (sizes(i), model(&counts.kernel).unwrap());
            let cost = (model.cost)(&sizes);
            let wrong = |what: String| {
                self.wrong.borrow_mut().push(format!("{}: {what}", counts.kernel));
            };
            if counts.touched_read != cost.bytes_read {
                wrong(format!("{} bytes read, {} expected", counts.touched_read, cost.bytes_read));
            }
            if counts.touched_written != cost.bytes_written {
                wrong(format!("{} bytes written, {} expected", counts.touched_written, cost.bytes_written));
            }
            let (accessed, most) =
                (counts.accessed_read + counts.accessed_written, (model.again)(&sizes) * cost.bytes());
            if accessed > most {
                wrong(format!("{accessed} bytes accessed, {most} at most"));
            }
            assert!((model.elements)(&sizes) > 0, "{}: no elements", counts.kernel);
            let (_, file, _) = kernels().into_iter().find(|(name, ..)| *name == counts.kernel).unwrap();
            let budget = budget_of(file.trim_end_matches(".cu")).unwrap();
            if counts.threads > budget.threads {
                wrong(format!("{} threads, a budget for {}", counts.threads, budget.threads));
            }
            self.seen.borrow_mut().insert(counts.kernel.clone());
        }
    }
}

#[test]
fn kernels_touch_what_their_models_say() {
    let device = Device::open(&DeviceOptions::new(Driver::Simt(Flavour::Checked))).unwrap();
    let bench = Bench { device, seen: RefCell::default(), wrong: RefCell::default() };
    what_does_not_fit_is_found(&bench);
    elements::check(&bench);
    rows::check(&bench);
    folds::check(&bench);
    matrices::check(&bench);
    attention::check(&bench);
    delta_net::check(&bench);
    products::check(&bench);
    let wrong = bench.wrong.borrow();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    let seen = bench.seen.borrow();
    let forgotten: Vec<String> =
        kernels().into_iter().map(|(name, ..)| name).filter(|name| !seen.contains(name)).collect();
    assert!(forgotten.is_empty(), "never launched: {forgotten:?}");
}

/// A model of fewer values than were launched: too many bytes are read, written and accessed.
fn what_does_not_fit_is_found(bench: &Bench) {
    let (x, mut y) = (bench.values(64), bench.room(64));
    let sizes = Sizes { rows: 1, n: 63, ..Sizes::default() };
    bench.check(sizes, || lockstep::engine::gpu::launch::silu(&bench.device, y.all_mut(), x.all()));
    let found = bench.wrong.take();
    let expected = [
        "256 bytes read, 252 expected",
        "256 bytes written, 252 expected",
        "512 bytes accessed, 504 at most",
    ];
    assert_eq!(found, expected.map(|what| format!("silu_f32: {what}")));
}
