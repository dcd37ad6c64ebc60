//! The norms of the graph with a weight of their own: what goes in, the norm, and the norm times its weight.
//!
//! The nth `norm` of a layer is, in llama.cpp's order: of attention 0 the layer's input, 1 q, 2 k, 3 what the feed-forward net
//! reads; of a delta net 0 the layer's input, 1 its output (which is not one of these: it is gated), 2 what the net reads.

use ndarray::{Array, Dimension};

use super::{Held, Site, Stop};
use crate::model::LayerKind;
use crate::ops::Tracked;

/// A norm.
#[derive(Clone, Copy, Debug)]
pub(in crate::question) struct Norm {
    /// The tensor behind the weight, which stands for the norm; the first of these names that the dump holds.
    outputs: &'static [&'static str],
    /// The weight's name, without layer.
    pub(in crate::question) weight: &'static str,
    /// Which `norm` it is.
    occurrence: u32,
    /// The tensor in front, the first of its name; none for the residual stream's that the layer is given.
    input: Option<&'static str>,
}

const fn norm(
    output: &'static [&'static str],
    weight: &'static str,
    occurrence: u32,
    input: Option<&'static str>,
) -> Norm {
    Norm { outputs: output, weight, occurrence, input }
}

const OF_INPUT: Norm = norm(&["attn_norm"], "attn_norm.weight", 0, None);
const OF_ATTENTION: &[Norm] = &[
    OF_INPUT,
    norm(&["Qcur_normed"], "attn_q_norm.weight", 1, Some("Qcur_reshaped")),
    norm(&["Kcur_normed"], "attn_k_norm.weight", 2, Some("Kcur")),
    norm(&["attn_post_norm"], "post_attention_norm.weight", 3, Some("attn_residual")),
];
const OF_DELTA_NET: &[Norm] =
    &[OF_INPUT, norm(&["attn_post_norm"], "post_attention_norm.weight", 2, Some("attn_residual"))];
/// Trees without MTP name the last one by what it is for only.
const LAST: &[Norm] = &[norm(&["h_nextn", "result_norm"], "output_norm.weight", 0, None)];

impl Norm {
    /// What it is called in an answer.
    pub(in crate::question) fn name(&self) -> &'static str {
        self.outputs[0]
    }

    /// What goes in.
    ///
    /// # Errors
    /// If the dump does not hold it.
    pub(in crate::question) fn input(&self, site: &Site<'_>) -> Result<Held, Stop> {
        self.input.map_or_else(|| site.residual(), |kind| site.tensor(kind))
    }

    /// The norm, without weight.
    ///
    /// # Errors
    /// If the dump does not hold it.
    pub(in crate::question) fn normed(&self, site: &Site<'_>) -> Result<Held, Stop> {
        site.occurrence("norm", self.occurrence)
    }

    /// The norm times its weight.
    ///
    /// # Errors
    /// If the dump does not hold it for all rows of the norm.
    pub(in crate::question) fn weighted(&self, site: &Site<'_>, normed: &Held) -> Result<Held, Stop> {
        let weighted = site.first_of(self.outputs)?;
        // What is picked out of its rows has another name only in trees that name both.
        match weighted.values.len() == normed.values.len() {
            true => Ok(weighted),
            false => Err(Stop::NotHeld(self.name().to_owned())),
        }
    }
}

/// Each row times a norm's weight.
pub(in crate::question) fn weighted<D: Dimension>(
    mut x: Array<Tracked, D>,
    weight: &[Tracked],
) -> Array<Tracked, D> {
    for mut row in x.rows_mut() {
        row.iter_mut().zip(weight).for_each(|(x, &w)| *x = *x * w);
    }
    x
}

impl Site<'_> {
    /// The norms of this site, in the order of the graph.
    pub(in crate::question) fn norms(&self) -> &'static [Norm] {
        match self.layer.map(|il| self.hparams().layers[il]) {
            Some(LayerKind::Attention) => OF_ATTENTION,
            Some(LayerKind::DeltaNet) => OF_DELTA_NET,
            None => LAST,
        }
    }
}
