//! The engines that are held to the invariants.

use crate::engine::cpu::CpuEngine;
use crate::engine::{Conventions, Engine, EngineError, Memory, StateFault};
use crate::model::Model;

/// In which order an engine sums over tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SumOrder {
    /// Token by token: how tokens are cut into ubatches changes no sum.
    ByToken,
    /// Several tokens of a ubatch together: another cut is another order.
    ByUbatch,
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

    /// The same in f64 and without faults, which the noise floor is measured with, and its f32 partner.
    ///
    /// # Errors
    /// If one cannot be made.
    fn floor_engines(&self, n_ctx: usize) -> Result<[Box<dyn Engine + '_>; 2], EngineError>;

    /// In which order it sums over tokens.
    fn sum_order(&self) -> SumOrder;

    /// Whether it can take tokens back.
    fn can_roll_back(&self) -> bool;
}

/// The cpu engine in f32.
pub struct CpuSubject<'m> {
    /// The model.
    pub model: &'m Model,
    /// A mistake that it makes on purpose.
    pub fault: Option<StateFault>,
}

impl Subject for CpuSubject<'_> {
    fn name(&self) -> String {
        "cpu f32".to_owned()
    }

    fn engine(&self, memory: Memory, n_ctx: usize) -> Result<Box<dyn Engine + '_>, EngineError> {
        let engine = CpuEngine::<f32>::new(self.model, Conventions::default(), n_ctx)?;
        Ok(Box::new(engine.with_memory(memory).with_fault(self.fault)))
    }

    fn floor_engines(&self, n_ctx: usize) -> Result<[Box<dyn Engine + '_>; 2], EngineError> {
        let narrow = CpuEngine::<f32>::new(self.model, Conventions::default(), n_ctx)?;
        let wide = CpuEngine::<f64>::new(self.model, Conventions::default(), n_ctx)?;
        Ok([Box::new(narrow), Box::new(wide)])
    }

    fn sum_order(&self) -> SumOrder {
        SumOrder::ByToken
    }

    fn can_roll_back(&self) -> bool {
        true
    }
}
