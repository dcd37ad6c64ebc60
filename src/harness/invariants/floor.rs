//! What rounding alone does to each token, measured by the same engine in two arithmetics.

use std::collections::BTreeMap;

use super::Subject;
use super::plans::Prompts;
use super::script::{Act, Script, record_engine};
use super::trace::relative_l2;
use crate::engine::Memory;
use crate::harness::HarnessError;

/// The noise floor of every token and layer: the largest on the way to it, from earlier layers and earlier tokens of its
/// sequence, whose states it reads.
pub(super) struct TokenFloor {
    so_far: BTreeMap<(i32, i64, usize), f64>,
}

impl TokenFloor {
    /// Runs every prompt whole, in f32 and in f64.
    pub(super) fn measure(subject: &dyn Subject, prompts: &Prompts) -> Result<TokenFloor, HarnessError> {
        let mut so_far: BTreeMap<(i32, i64, usize), f64> = BTreeMap::new();
        for sequence in prompts.sequences() {
            let n = prompts.len();
            let acts = vec![Act::Step(prompts.step(&[(sequence, 0..n)]))];
            let script = Script { memory: Memory::default(), n_ctx: n, acts, states: Vec::new() };
            let [mut narrow, mut wide] = subject.floor_engines(n)?;
            let narrow = record_engine(&mut *narrow, &script)?;
            let wide = record_engine(&mut *wide, &script)?;
            let mut before: BTreeMap<usize, f64> = BTreeMap::new();
            for ((_, position, layer, x), (_, _, _, y)) in narrow.rows().zip(wide.rows()) {
                let own = relative_l2(y, x);
                // Rows come by position, then by layer.
                let way = before.range(..=layer).map(|(_, &floor)| floor).fold(0.0, f64::max);
                let floor = f64::max(way, if own.is_finite() { own } else { 0.0 });
                before.insert(layer, floor);
                so_far.insert((sequence, position, layer), floor);
            }
        }
        Ok(TokenFloor { so_far })
    }

    /// The floor of a token's row behind a layer. What was not measured has none, so that nothing passes by it.
    pub(super) fn at(&self, sequence: i32, position: i64, layer: usize) -> f64 {
        self.so_far.get(&(sequence, position, layer)).copied().unwrap_or(0.0)
    }
}
