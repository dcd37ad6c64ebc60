//! What an engine takes of the emulated device's memory is given back. The only test of its process, as buffers are counted for all of it.

mod common;

use std::sync::Arc;

use common::ubatch;
use lockstep::engine::gpu::{Device, DeviceOptions, Driver, Flavour, GpuEngine, GpuModel, live_buffers};
use lockstep::engine::{Conventions, Engine, NullTap};
use lockstep::model::Model;

#[test]
fn all_of_it_is_given_back() {
    let model = Model::open(&common::micro().path).unwrap();
    let device = Device::open(&DeviceOptions::new(Driver::Simt(Flavour::Fast))).unwrap();
    let before = live_buffers().unwrap();
    let uploaded = Arc::new(GpuModel::upload(&device, &model, &mut |_, _| {}).unwrap());
    let mut engine = GpuEngine::new(&uploaded, Conventions::default(), 64).unwrap();
    for range in [0..3, 3..4, 4..5, 5..6] {
        engine.step(&ubatch(&[7, 300, 12, 45, 501, 300], range), &mut NullTap).unwrap();
    }
    assert!(live_buffers().unwrap() > before, "nothing is counted");
    drop((engine, uploaded));
    assert_eq!(live_buffers().unwrap(), before);
}
