//! The recurrence of a delta net from what the dump holds in front of it.

use ndarray::{Array3, Array4, Axis, s};

use super::{Held, Site, Stop};
use crate::model::LayerKind;
use crate::ops::{
    DecayOrder, DeltaGates, DeltaInputs, DeltaRule, NoSteps, Number, Tracked, delta_net_chunked,
    gated_delta_net,
};

/// What a tree of March 2026 calls the recurrence where it is one operator: `LLAMA_TENSOR_NAME_FGDN_AR` and `_CH` (llama-impl.h).
const OPERATORS: [&str; 2] = ["__fgdn_ar__", "__fgdn_ch__"];

/// The source of `GATED_DELTA_NET` that holds beta (`ggml_gated_delta_net`).
const BETA: usize = 4;

/// The inputs and results of a recurrence. Arrays are `[n_seqs, n_tokens, n_head, d]`.
#[derive(Clone)]
pub(in crate::question) struct DeltaNet {
    pub(in crate::question) q: Array4<Tracked>,
    pub(in crate::question) k: Array4<Tracked>,
    pub(in crate::question) v: Array4<Tracked>,
    /// Log decay, `[n_seqs, n_tokens, n_v]`.
    pub(in crate::question) log_decay: Array3<Tracked>,
    /// `[n_seqs, n_tokens, n_v]`
    pub(in crate::question) beta: Array3<Tracked>,
    /// `[n_seqs, n_v, d_v, d_k]`
    pub(in crate::question) state: Array4<Tracked>,
    /// `attn_output`, and `new_state` where llama.cpp names it.
    pub(in crate::question) results: Vec<Held>,
}

/// What a candidate changes.
#[derive(Clone, Copy)]
pub(in crate::question) struct Rules {
    pub(in crate::question) rule: DeltaRule,
    pub(in crate::question) order: DecayOrder,
    /// The k head of a v head, of n_k and n_v.
    pub(in crate::question) k_head: fn(usize, (usize, usize)) -> usize,
    /// The factor on the output, of the head size.
    pub(in crate::question) scale: fn(f64) -> f64,
    /// Whether the state is stored k-major.
    pub(in crate::question) is_k_major: bool,
}

impl Default for Rules {
    /// What b11434 does.
    fn default() -> Rules {
        Rules {
            rule: DeltaRule::Delta,
            order: DecayOrder::BeforePrediction,
            k_head: |head, (n_k, _)| head % n_k,
            scale: |d| 1.0 / d.sqrt(),
            is_k_major: false,
        }
    }
}

impl Site<'_> {
    /// The recurrence of this layer.
    ///
    /// # Errors
    /// If this is no delta net, or the dump does not hold what goes into it, or nothing that comes out.
    pub(in crate::question) fn delta_net(&self) -> Result<DeltaNet, Stop> {
        self.require(LayerKind::DeltaNet)?;
        let q = self.tensor("q_conv_predelta")?.array();
        let k = self.first_of(&["k_conv_predelta", "k_in"])?.array();
        let v = self.first_of(&["v_conv_predelta", "v_in"])?.array();
        let by_head = (v.dim().0, v.dim().1, v.dim().2);
        let log_decay = self.tensor("gate")?.shaped(by_head)?;
        let beta = self.beta()?.shaped(by_head)?;
        let state = self.tensor("state_predelta")?.array();
        let output = self.tensor("attn_output");
        let results = match (output, self.tensor("new_state")) {
            (Ok(output), Ok(state)) => vec![output, state],
            (Ok(one), Err(Stop::NotHeld(_))) | (Err(Stop::NotHeld(_)), Ok(one)) => vec![one],
            (Err(stop), _) | (_, Err(stop)) => return Err(stop),
        };
        Ok(DeltaNet { q, k, v, log_decay, beta, state, results })
    }

    /// Beta as the recurrence takes it. Where a tree gives it no name, it is what the operator reads.
    ///
    /// # Errors
    /// If the dump does not hold it.
    pub(in crate::question) fn beta(&self) -> Result<Held, Stop> {
        let mut found = self.first_of(&["beta_sigmoid", "b_in"]);
        for kind in OPERATORS {
            if !matches!(found, Err(Stop::NotHeld(_))) {
                break;
            }
            found = self.source(kind, "GATED_DELTA_NET", BETA);
        }
        found
    }
}

impl DeltaNet {
    /// The same with other log decays, by flat index of `[n_seqs, n_tokens, n_v]`.
    pub(in crate::question) fn with_log_decay(&self, of: impl Fn(usize) -> Tracked) -> DeltaNet {
        let mut changed = self.clone();
        changed.log_decay.iter_mut().enumerate().for_each(|(i, g)| *g = of(i));
        changed
    }

    /// What the recurrence gives for one of the results, packed, with candidates' rules.
    pub(in crate::question) fn run(&self, result: &Held, rules: Rules) -> Vec<Tracked> {
        let (o, state) = self.evaluate(rules);
        if result.id.kind() == "new_state" { super::held::packed(state) } else { super::held::packed(o) }
    }

    /// What the recurrence gives for one of the results, packed, in chunks of tokens.
    pub(in crate::question) fn run_chunked(&self, result: &Held) -> Vec<Tracked> {
        let (n_k, n_v) = (self.q.dim().2, self.v.dim().2);
        let heads: Vec<usize> = (0..n_v).map(|head| head % n_k).collect();
        let (q, k) = (self.q.select(Axis(2), &heads), self.k.select(Axis(2), &heads));
        let inputs = DeltaInputs {
            q: q.view(),
            k: k.view(),
            v: self.v.view(),
            log_decay: self.log_decay.view(),
            beta: self.beta.view(),
        };
        let scale = Tracked::from_f64(1.0 / (self.v.dim().3 as f64).sqrt());
        let Ok((o, state)) = delta_net_chunked(&inputs, self.state.clone(), scale, &mut NoSteps);
        if result.id.kind() == "new_state" { super::held::packed(state) } else { super::held::packed(o) }
    }

    /// Outputs `[n_seqs, n_tokens, n_v, d_v]` and the states after.
    fn evaluate(&self, rules: Rules) -> (Array4<Tracked>, Array4<Tracked>) {
        let stored = |state: Array4<Tracked>| match rules.is_k_major {
            true => state.permuted_axes([0, 1, 3, 2]).as_standard_layout().into_owned(),
            false => state,
        };
        let mut state = stored(self.state.clone());
        let mut o = Array4::from_elem(self.v.raw_dim(), Tracked::default());
        let heads = (self.q.dim().2, self.v.dim().2);
        let d = self.v.dim().3 as f64;
        for (sequence, mut state) in state.axis_iter_mut(Axis(0)).enumerate() {
            let of = |x: &Array4<Tracked>| x.slice(s![sequence, .., .., ..]).to_owned();
            let (q, k, v) = (of(&self.q), of(&self.k), of(&self.v));
            let gates = DeltaGates {
                log_decay: self.log_decay.slice(s![sequence, .., ..]),
                beta: self.beta.slice(s![sequence, .., ..]),
            };
            let out = gated_delta_net(
                q.view(),
                k.view(),
                v.view(),
                gates,
                state.view_mut(),
                // With as many k heads as v heads they were repeated before: there is no map left.
                |head| if heads.0 == heads.1 { head } else { (rules.k_head)(head, heads) },
                Tracked::from_f64((rules.scale)(d)),
                (rules.rule, rules.order),
            );
            o.slice_mut(s![sequence, .., .., ..]).assign(&out);
        }
        (o, stored(state))
    }
}
