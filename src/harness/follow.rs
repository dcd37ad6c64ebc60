//! A walk through the reference's graph that keeps step with an engine: tensors wait until the walk comes to them, which is at
//! once where both go in the same order.

use std::collections::HashMap;

use super::HarnessError;
use crate::dump::Node;
use crate::replay::{Judged, Walk};
use crate::tensor::Values;

/// The values of an engine's tensor.
enum Own {
    F32(Vec<f32>),
    F64(Vec<f64>),
}

impl Own {
    fn of(values: Values<'_>) -> Own {
        match values {
            Values::F32(values) => Own::F32(values.to_vec()),
            Values::F64(values) => Own::F64(values.to_vec()),
        }
    }

    fn values(&self) -> Values<'_> {
        match self {
            Own::F32(values) => Values::F32(values),
            Own::F64(values) => Values::F64(values),
        }
    }
}

/// A walk, and the tensors that wait for it.
pub(super) struct Follower<'a> {
    walk: Walk<'a>,
    /// Per node of the dump, whether the engine is to give it.
    wanted: Vec<bool>,
    pending: HashMap<u32, Own>,
}

/// Called with a tensor of the reference, judged, and the engine's values of it; none of a tensor without a name, which no
/// engine emits, unless a view of it has one.
pub(super) type Each<'f> = &'f mut dyn FnMut(&Judged<'_>, Option<Values<'_>>) -> Result<(), HarnessError>;

impl<'a> Follower<'a> {
    pub(super) fn new(walk: Walk<'a>, wanted: Vec<bool>) -> Follower<'a> {
        Follower { walk, wanted, pending: HashMap::new() }
    }

    /// Takes an engine's tensor, and goes on as far as the tensors that came allow.
    pub(super) fn give(
        &mut self,
        node: &Node,
        values: Values<'_>,
        each: Each<'_>,
    ) -> Result<(), HarnessError> {
        self.pending.insert(node.id, Own::of(values));
        self.advance(false, each)
    }

    /// Takes note that a tensor will not come.
    pub(super) fn without(&mut self, node: &Node) {
        if let Some(wanted) = self.wanted.get_mut(node.id as usize) {
            *wanted = false;
        }
    }

    /// Goes to the end, whatever is missing.
    pub(super) fn finish(mut self, each: Each<'_>) -> Result<(), HarnessError> {
        self.advance(true, each)
    }

    fn advance(&mut self, to_the_end: bool, each: Each<'_>) -> Result<(), HarnessError> {
        while let Some(shown) = self.walk.next_shown() {
            let waits = |node: &&Node| self.wanted[node.id as usize] && !self.pending.contains_key(&node.id);
            if !to_the_end && shown.iter().any(waits) {
                return Ok(());
            }
            let shown = self.walk.step()?.unwrap_or_default();
            let is_named = shown.iter().any(|judged| judged.node.is_named());
            for judged in &shown {
                match self.pending.remove(&judged.node.id) {
                    Some(own) => each(judged, Some(own.values()))?,
                    None if !is_named => each(judged, None)?,
                    None => {}
                }
            }
        }
        Ok(())
    }
}
