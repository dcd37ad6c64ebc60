//! The engines that are held to the invariants.

use std::sync::Arc;

use crate::engine::cpu::CpuEngine;
use crate::engine::gpu::{GpuEngine, GpuModel};
use crate::engine::{Conventions, DeltaNetRoute, Engine, EngineError, Memory, Numerics, StateFault};
use crate::model::Model;

/// In which order an engine sums over tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SumOrder {
    /// Token by token: how tokens are cut into ubatches changes no sum.
    ByToken,
    /// Several tokens of a sequence in a ubatch together: another cut is another order.
    ByUbatch,
    /// By how many tokens there are in a ubatch, whichever sequences they belong to.
    ByBatch,
}

/// An engine under test, made anew for each run.
pub trait Subject {
    /// The engine, its arithmetic and its route.
    fn name(&self) -> String;

    /// A new engine for at most `n_ctx` tokens in each sequence, or together where they share their cells.
    ///
    /// # Errors
    /// If it cannot be made.
    fn engine(&self, memory: Memory, n_ctx: usize) -> Result<Box<dyn Engine + '_>, EngineError>;

    /// The same without faults in f32 and in f64, which the noise floor is measured with.
    ///
    /// # Errors
    /// If one cannot be made.
    fn floor_engines(&self, n_ctx: usize) -> Result<[Box<dyn Engine + '_>; 2], EngineError>;

    /// In which order it sums over tokens.
    fn sum_order(&self) -> SumOrder;

    /// Whether it can take tokens back.
    ///
    /// # Errors
    /// Why it cannot.
    fn can_roll_back(&self) -> Result<(), &'static str>;
}

/// The cpu engine in f32, by one of its routes.
pub struct CpuSubject<'m> {
    /// The model.
    pub model: &'m Model,
    /// How it computes the delta net.
    pub delta_net: DeltaNetRoute,
    /// A mistake that it makes on purpose.
    pub fault: Option<StateFault>,
}

impl<'m> CpuSubject<'m> {
    fn numerics(&self) -> Numerics {
        Numerics { delta_net: self.delta_net, ..Numerics::default() }
    }

    fn narrow(&self, n_ctx: usize) -> Result<CpuEngine<'m, f32>, EngineError> {
        CpuEngine::new(self.model, Conventions::default(), n_ctx)?.with_numerics(self.numerics())
    }

    fn wide(&self, n_ctx: usize) -> Result<CpuEngine<'m, f64>, EngineError> {
        CpuEngine::new(self.model, Conventions::default(), n_ctx)?.with_numerics(self.numerics())
    }
}

impl Subject for CpuSubject<'_> {
    fn name(&self) -> String {
        match self.delta_net {
            DeltaNetRoute::Fused => "cpu f32",
            DeltaNetRoute::Unfused => "cpu f32 chunked",
        }
        .to_owned()
    }

    fn engine(&self, memory: Memory, n_ctx: usize) -> Result<Box<dyn Engine + '_>, EngineError> {
        Ok(Box::new(self.narrow(n_ctx)?.with_memory(memory).with_fault(self.fault)))
    }

    fn floor_engines(&self, n_ctx: usize) -> Result<[Box<dyn Engine + '_>; 2], EngineError> {
        Ok([Box::new(self.narrow(n_ctx)?), Box::new(self.wide(n_ctx)?)])
    }

    fn sum_order(&self) -> SumOrder {
        match self.delta_net {
            DeltaNetRoute::Fused => SumOrder::ByToken,
            DeltaNetRoute::Unfused => SumOrder::ByUbatch,
        }
    }

    fn can_roll_back(&self) -> Result<(), &'static str> {
        match self.delta_net {
            DeltaNetRoute::Fused => Ok(()),
            // As llama.cpp, which takes the fused operator wherever n_rs_seq is not 0.
            DeltaNetRoute::Unfused => Err("where earlier states are kept it goes token by token"),
        }
    }
}

/// The engine on a device, by one of its routes. Few tokens and many go through different kernels.
pub struct GpuSubject<'m> {
    /// The model, on the device.
    pub model: Arc<GpuModel<'m>>,
    /// How it computes the delta net.
    pub delta_net: DeltaNetRoute,
}

impl<'m> GpuSubject<'m> {
    /// The cpu engine that computes by the same route.
    fn cpu(&self) -> CpuSubject<'m> {
        CpuSubject { model: self.model.model(), delta_net: self.delta_net, fault: None }
    }
}

impl Subject for GpuSubject<'_> {
    fn name(&self) -> String {
        match self.delta_net {
            DeltaNetRoute::Fused => self.model.driver().to_string(),
            DeltaNetRoute::Unfused => format!("{} chunked", self.model.driver()),
        }
    }

    fn engine(&self, memory: Memory, n_ctx: usize) -> Result<Box<dyn Engine + '_>, EngineError> {
        let engine = GpuEngine::new(&self.model, Conventions::default(), n_ctx)?;
        Ok(Box::new(engine.with_numerics(self.cpu().numerics())?.with_memory(memory)?))
    }

    fn floor_engines(&self, n_ctx: usize) -> Result<[Box<dyn Engine + '_>; 2], EngineError> {
        let cpu = self.cpu();
        Ok([Box::new(cpu.narrow(n_ctx)?), Box::new(cpu.wide(n_ctx)?)])
    }

    fn sum_order(&self) -> SumOrder {
        SumOrder::ByBatch
    }

    fn can_roll_back(&self) -> Result<(), &'static str> {
        self.cpu().can_roll_back()
    }
}
