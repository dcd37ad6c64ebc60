//! Checks that what the graph of each step read is what its ubatch says.

#![deny(clippy::indexing_slicing)]

use super::error::Defect;
use super::manifest::{Leaf, LeafKind, Ubatch};
use super::read::Dump;
use crate::tensor::GgmlType;

impl Dump {
    /// Checks the input leaves that hold token ids and positions. Of a model with M-RoPE `inp_pos` holds four
    /// numbers for each token: all tokens' first ones, which are the positions, come first.
    pub(super) fn check_inputs(&self) -> Result<(), Defect> {
        for leaf in self.leaves().iter().filter(|leaf| leaf.kind == LeafKind::Input) {
            let ubatch = leaf.step.and_then(|step| self.manifest.run.ubatches.get(step as usize));
            let (Some(ubatch), Some(entry)) = (ubatch, &leaf.entry) else { continue };
            let Some((expected, rows)) = stated(leaf, ubatch) else { continue };
            let bytes = self.payload(entry, || leaf.label())?;
            check(leaf, expected, rows, bytes)?;
        }
        Ok(())
    }
}

/// What the ubatch says an input holds, and how many numbers for each token it may hold.
fn stated<'a>(leaf: &Leaf, ubatch: &'a Ubatch) -> Option<(&'a [i32], &'static [usize])> {
    match leaf.name.as_str() {
        "inp_tokens" => Some((&ubatch.tokens, &[1])),
        "inp_pos" => Some((&ubatch.positions, &[1, 4])),
        _ => None,
    }
}

fn check(leaf: &Leaf, expected: &[i32], rows: &[usize], bytes: &[u8]) -> Result<(), Defect> {
    let values = bytes.as_chunks().0.iter().map(|chunk| i32::from_le_bytes(*chunk));
    let count = values.len();
    if leaf.ty != GgmlType::I32 || !rows.iter().any(|rows| rows.checked_mul(expected.len()) == Some(count)) {
        let (item, tokens) = (leaf.label(), expected.len());
        return Err(Defect::InputLength { item, ty: leaf.ty, tokens, got: count });
    }
    match values.zip(expected).enumerate().find(|(_, (got, expected))| got != *expected) {
        Some((token, (got, &expected))) => Err(Defect::Input { item: leaf.label(), token, expected, got }),
        None => Ok(()),
    }
}
