//! Running an engine and keeping what it computes.

use std::ops::Range;

use lockstep::engine::{Conventions, Engine, Tap, TapError, Ubatch, cpu::CpuEngine};
use lockstep::model::Model;
use lockstep::ops::Real;
use lockstep::tensor::{TensorId, Values};

/// A tensor that an engine emitted; f32 values are widened, so equal values have equal bits.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    pub id: TensorId,
    pub ne: [u64; 4],
    pub values: Vec<f64>,
}

/// A tap that keeps every tensor, or those that pass a filter.
#[derive(Default)]
pub struct Keep {
    pub tensors: Vec<Tensor>,
    pub only: Option<fn(&str) -> bool>,
}

impl Keep {
    pub fn only(filter: fn(&str) -> bool) -> Keep {
        Keep { tensors: Vec::new(), only: Some(filter) }
    }
}

impl Tap for Keep {
    fn tensor(
        &mut self,
        id: &TensorId,
        ne: [u64; 4],
        values: Values<'_>,
    ) -> Result<Option<Vec<f32>>, TapError> {
        if self.only.is_none_or(|filter| filter(&id.name)) {
            let values = match values {
                Values::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
                Values::F64(v) => v.to_vec(),
            };
            self.tensors.push(Tensor { id: id.clone(), ne, values });
        }
        Ok(None)
    }

    fn wants(&self, id: &TensorId) -> bool {
        self.only.is_none_or(|filter| filter(&id.name))
    }
}

/// Part of a sequence, with logits wanted for every token.
pub fn ubatch(tokens: &[u32], range: Range<usize>) -> Ubatch {
    Ubatch {
        tokens: tokens[range.clone()].to_vec(),
        positions: range.clone().map(|p| p as i64).collect(),
        sequences: vec![0; range.len()],
        outputs: vec![true; range.len()],
    }
}

/// Every tensor of a run with the verified conventions: `splits` are the lengths of the ubatches.
pub fn run<T: Real>(model: &Model, tokens: &[u32], splits: &[usize]) -> Vec<Tensor> {
    assert_eq!(splits.iter().sum::<usize>(), tokens.len());
    let mut engine = CpuEngine::<T>::new(model, Conventions::default(), 512).unwrap();
    let mut keep = Keep::default();
    let mut start = 0;
    for &n in splits {
        engine.step(&ubatch(tokens, start..start + n), &mut keep).unwrap();
        start += n;
    }
    keep.tensors
}

/// The same tensors with the same bits, one by one.
#[track_caller]
pub fn assert_same(reference: &[Tensor], actual: &[Tensor]) {
    let first = reference.iter().zip(actual).find(|(x, y)| x != y);
    if let Some((x, y)) = first {
        panic!("{} {:?} differs from {} {:?}", y.id, y.ne, x.id, x.ne);
    }
    assert_eq!(reference.len(), actual.len());
}

/// `|x - y| / |x|`; 0 for two tensors of zeros.
pub fn relative_l2(reference: &[f64], actual: &[f64]) -> f64 {
    assert_eq!(reference.len(), actual.len());
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let difference = norm(&mut reference.iter().zip(actual).map(|(x, y)| x - y));
    if difference == 0.0 { 0.0 } else { difference / norm(&mut reference.iter().copied()) }
}
