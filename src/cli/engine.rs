//! Which engine a command runs, and the engine.

use std::sync::Arc;
use std::thread;

use anyhow::{Result, bail};
use clap::{Args as ClapArgs, ValueEnum};

use super::{cache, progress};
use crate::arithmetic::Isa;
use crate::engine::cpu::CpuEngine;
use crate::engine::gpu::{Device, DeviceOptions, Driver, Flavour, GpuEngine, GpuModel, Order};
use crate::engine::{Conventions, Engine, Memory, Numerics, StateFault};
use crate::model::Model;
use crate::ops::{Real, Single};

#[derive(ClapArgs, Debug)]
pub(super) struct EngineArgs {
    /// The engine: cpu; cuda = our kernels on an NVIDIA GPU; simt = the same kernels and the same host code on the CPU, slowly, with every
    /// barrier and every buffer watched
    #[arg(long, value_enum, default_value_t = EngineName::Cpu)]
    pub(super) engine: EngineName,
    /// The arithmetic of the cpu engine
    #[arg(long, value_enum, default_value_t = Arithmetic::F32)]
    pub(super) arithmetic: Arithmetic,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EngineName {
    Cpu,
    Cuda,
    Simt,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arithmetic {
    F32,
    F64,
    /// f32 in the order of operations of the build of llama.cpp that made the dump: every tensor must be equal
    Ggml,
}

/// What an engine is asked to do besides running.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wish {
    pub(super) conventions: Conventions,
    pub(super) numerics: Numerics,
    pub(super) memory: Memory,
    pub(super) n_ctx: usize,
    pub(super) fault: Option<StateFault>,
}

/// Where models are run.
pub(super) enum Place {
    Cpu(Arithmetic),
    Gpu(Device),
}

/// A model that engines can be made of.
pub(super) enum Loaded<'m> {
    Cpu(&'m Model, Arithmetic),
    Gpu(Arc<GpuModel<'m>>),
}

impl EngineName {
    /// The device of this engine; none of the cpu engine.
    pub(super) fn device(self) -> Result<Option<Device>> {
        let driver = match self {
            EngineName::Cpu => return Ok(None),
            EngineName::Cuda => Driver::Cuda,
            EngineName::Simt => Driver::Simt(Flavour::Fast),
        };
        Device::set_schedule(Order::Forward, thread::available_parallelism().map_or(1, usize::from));
        let options =
            DeviceOptions { cache: Some(cache::root().join("kernels")), ..DeviceOptions::new(driver) };
        Ok(Some(Device::open(&options)?))
    }
}

impl EngineArgs {
    /// Opens the device, if there is to be one: before any work is done that would be for nothing.
    pub(super) fn open(&self) -> Result<Place> {
        match (self.engine.device()?, self.arithmetic) {
            (None, arithmetic) => Ok(Place::Cpu(arithmetic)),
            (Some(_), Arithmetic::F64 | Arithmetic::Ggml) => {
                bail!(
                    "--arithmetic f64 and ggml are the cpu engine's: kernels compute in f32, in an order of their own"
                )
            }
            (Some(device), Arithmetic::F32) => Ok(Place::Gpu(device)),
        }
    }
}

impl Place {
    /// Brings a model's weights to where it runs.
    pub(super) fn load<'m>(&self, model: &'m Model) -> Result<Loaded<'m>> {
        Ok(match self {
            Place::Cpu(arithmetic) => Loaded::Cpu(model, *arithmetic),
            Place::Gpu(device) => {
                let bar = progress::bar("weights to the device");
                let uploaded = GpuModel::upload(device, model, &mut progress::callback(&bar));
                bar.finish_and_clear();
                Loaded::Gpu(Arc::new(uploaded?))
            }
        })
    }
}

impl<'m> Loaded<'m> {
    pub(super) fn engine(&self, wish: Wish) -> Result<Box<dyn Engine + 'm>> {
        match self {
            Loaded::Cpu(model, Arithmetic::F32) => cpu::<f32>(model, wish),
            Loaded::Cpu(model, Arithmetic::F64) => cpu::<f64>(model, wish),
            Loaded::Cpu(model, Arithmetic::Ggml) => match wish.numerics.ggml.map(|ggml| ggml.isa) {
                Some(Isa::Sse2) => cpu::<Single<4>>(model, wish),
                Some(Isa::Avx2) => cpu::<Single<8>>(model, wish),
                Some(Isa::Avx512) => cpu::<Single<16>>(model, wish),
                None => bail!("--arithmetic ggml follows the build that made a dump: it is check's"),
            },
            Loaded::Gpu(_) if wish.fault.is_some() => bail!("--fault is a mistake of the cpu engine"),
            Loaded::Gpu(model) => {
                let engine = GpuEngine::new(model, wish.conventions, wish.n_ctx)?;
                Ok(Box::new(engine.with_numerics(wish.numerics)?.with_memory(wish.memory)?))
            }
        }
    }
}

fn cpu<'m, T: Real + 'm>(model: &'m Model, wish: Wish) -> Result<Box<dyn Engine + 'm>> {
    let engine = CpuEngine::<T>::new(model, wish.conventions, wish.n_ctx)?.with_numerics(wish.numerics)?;
    Ok(Box::new(engine.with_memory(wish.memory).with_fault(wish.fault)))
}
