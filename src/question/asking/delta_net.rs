//! The recurrence of a delta net from what the dump holds in front of it.

use ndarray::{Array3, Array4, Axis, s};

use super::{Held, Looked, Site, Stop, packed};
use crate::model::LayerKind;
use crate::ops::{
    DecayOrder, DeltaGates, DeltaInputs, DeltaRule, NoSteps, Number, Tracked, delta_net_autoregressive,
    delta_net_chunked, gated_delta_net,
};
use crate::question::Question;

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
    /// Whether the reference computed it in chunks of tokens, whose roundings are others.
    is_chunked: bool,
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

impl Rules {
    /// The state from how it is stored to `[.., v, k]`, or back.
    fn stored(self, state: Array4<Tracked>) -> Array4<Tracked> {
        match self.is_k_major {
            true => state.permuted_axes([0, 1, 3, 2]).as_standard_layout().into_owned(),
            false => state,
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
        let h = self.hparams();
        let (n_k, n_v, d) = (h.ssm_n_group, h.ssm_dt_rank, h.ssm_d_state);
        let queries = self.tensor("q_conv_predelta")?;
        let [n_seqs, n_tokens, ..] = queries.shape;
        // Where the recurrence is a graph of plain operators, q and k are repeated to the heads of v.
        let n_head = if queries.values.len() == n_seqs * n_tokens * n_v * d { n_v } else { n_k };
        let q = queries.shaped((n_seqs, n_tokens, n_head, d))?;
        let keys = self.tensor("k_conv_predelta");
        // Only the graph for chunks gives this tensor another name.
        let is_chunked = n_tokens > 1 && matches!(keys, Err(Stop::NotHeld(_)));
        let keys = if is_chunked { self.tensor("k_in") } else { keys };
        let k = keys?.shaped((n_seqs, n_tokens, n_head, d))?;
        let v = self.first_of(&["v_conv_predelta", "v_in"])?.shaped((n_seqs, n_tokens, n_v, d))?;
        let log_decay = self.tensor("gate")?.shaped((n_seqs, n_tokens, n_v))?;
        let beta = self.beta()?.shaped((n_seqs, n_tokens, n_v))?;
        let state = self.tensor("state_predelta")?.shaped((n_seqs, n_v, d, d))?;
        let output = self.tensor("attn_output");
        let results = match (output, self.tensor("new_state")) {
            (Ok(output), Ok(state)) => vec![output, state],
            (Ok(one), Err(Stop::NotHeld(_))) | (Err(Stop::NotHeld(_)), Ok(one)) => vec![one],
            (Err(stop), _) | (_, Err(stop)) => return Err(stop),
        };
        Ok(DeltaNet { q, k, v, log_decay, beta, state, is_chunked, results })
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
        found.map_err(|stop| match stop {
            Stop::NotHeld(_) => Stop::NotHeld("beta_sigmoid".to_owned()),
            stop => stop,
        })
    }
}

impl DeltaNet {
    /// The same with other log decays.
    pub(in crate::question) fn with_log_decay(&self, log_decay: Array3<Tracked>) -> DeltaNet {
        DeltaNet { log_decay, ..self.clone() }
    }

    /// Scores each of the results with what a candidate makes of it.
    ///
    /// # Errors
    /// If it makes another number of elements.
    pub(in crate::question) fn scored(
        &self,
        site: &Site<'_>,
        question: &Question,
        of: impl Fn(&str, &Held) -> Vec<Tracked>,
    ) -> Looked {
        let trial = |result: &Held| {
            let of = |candidate: &str| Ok(Some(of(candidate, result)));
            site.trial(question, result.id.kind(), result.clone(), of)
        };
        self.results.iter().map(trial).collect()
    }

    /// What the recurrence gives for one of the results, packed, with candidates' rules.
    ///
    /// A reference that ran in chunks has rounded what those are made of: the exponentials of added decays, a triangular solve. As far
    /// from the exact values as that may be, it may be from these, too. Other rules have no such graph; they are granted as much.
    pub(in crate::question) fn run(&self, result: &Held, rules: Rules) -> Vec<Tracked> {
        let mut values = of_result(result, self.evaluate(rules));
        if self.is_chunked {
            let in_chunks = self.run_unfused(result, rules);
            values.iter_mut().zip(in_chunks).for_each(|(x, y)| *x = x.with_inherited(y.spread()));
        }
        values
    }

    /// What the recurrence gives for one of the results, packed, by the graph of plain operators: in chunks of tokens, or for one. Rule
    /// and order are llama.cpp's.
    pub(in crate::question) fn run_unfused(&self, result: &Held, rules: Rules) -> Vec<Tracked> {
        let heads: Vec<usize> = (0..self.v.dim().2).map(|head| self.k_head(head, rules)).collect();
        let (q, k) = (self.q.select(Axis(2), &heads), self.k.select(Axis(2), &heads));
        let inputs = DeltaInputs {
            q: q.view(),
            k: k.view(),
            v: self.v.view(),
            log_decay: self.log_decay.view(),
            beta: self.beta.view(),
        };
        let (scale, state) = (self.scale(rules), rules.stored(self.state.clone()));
        let Ok((o, state)) = match self.v.dim().1 {
            1 => delta_net_autoregressive(&inputs, state, scale, &mut NoSteps),
            _ => delta_net_chunked(&inputs, state, scale, &mut NoSteps),
        };
        of_result(result, (o, rules.stored(state)))
    }

    /// The k head of a v head. With as many of one as of the other they were repeated before: there is no map left.
    fn k_head(&self, head: usize, rules: Rules) -> usize {
        let heads = (self.q.dim().2, self.v.dim().2);
        if heads.0 == heads.1 { head } else { (rules.k_head)(head, heads) }
    }

    fn scale(&self, rules: Rules) -> Tracked {
        Tracked::from_f64((rules.scale)(self.v.dim().3 as f64))
    }

    /// Outputs `[n_seqs, n_tokens, n_v, d_v]` and the states after.
    fn evaluate(&self, rules: Rules) -> (Array4<Tracked>, Array4<Tracked>) {
        let mut state = rules.stored(self.state.clone());
        let mut o = Array4::from_elem(self.v.raw_dim(), Tracked::default());
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
                |head| self.k_head(head, rules),
                self.scale(rules),
                (rules.rule, rules.order),
            );
            o.slice_mut(s![sequence, .., .., ..]).assign(&out);
        }
        (o, rules.stored(state))
    }
}

/// One of outputs and states, packed.
fn of_result(result: &Held, (o, state): (Array4<Tracked>, Array4<Tracked>)) -> Vec<Tracked> {
    packed(if result.id.kind() == "new_state" { state } else { o })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::TensorId;

    fn held(kind: &str) -> Held {
        let id = TensorId { step: 0, name: format!("{kind}-0"), occurrence: 0 };
        Held { id, shape: [1, 1, 1, 1], values: Vec::new() }
    }

    /// One sequence of two tokens, one k head, two v heads, d = 2; not decayed.
    fn net(is_chunked: bool) -> DeltaNet {
        let given = |shape: [usize; 4], values: &[f64]| {
            let values = values.iter().map(|&x| Tracked::exact(x)).collect();
            Array4::from_shape_vec(shape, values).unwrap()
        };
        let key = given([1, 2, 1, 2], &[1.0, 0.0, 1.0, 0.0]);
        let gate = |x: f64| Array3::from_elem((1, 2, 2), Tracked::exact(x));
        DeltaNet {
            q: key.clone(),
            k: key,
            v: given([1, 2, 2, 2], &[8.0, 0.0, 4.0, 0.0, 8.0, 0.0, 4.0, 0.0]),
            log_decay: gate(0.0),
            beta: gate(0.5),
            state: given([1, 2, 2, 2], &[0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
            is_chunked,
            results: Vec::new(),
        }
    }

    fn values(numbers: &[Tracked]) -> Vec<f64> {
        numbers.iter().map(Tracked::value).collect()
    }

    #[test]
    fn both_routes_give_the_same_and_each_its_own_roundings() {
        for kind in ["attn_output", "new_state"] {
            let rules = Rules { scale: |_| 1.0, ..Rules::default() };
            let alone = net(false).run(&held(kind), rules);
            let unfused = net(false).run_unfused(&held(kind), rules);
            let both = net(true).run(&held(kind), rules);
            // (8 - 0) / 2 = 4, then 4 + (8 - 4) / 2 = 6; half of that for the other head
            let expected: &[f64] = match kind {
                "attn_output" => &[4.0, 0.0, 2.0, 0.0, 6.0, 0.0, 3.0, 0.0],
                _ => &[6.0, 3.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0],
            };
            assert_eq!(values(&alone), expected);
            assert_eq!((values(&unfused), values(&both)), (expected.to_vec(), expected.to_vec()));
            for i in 0..8 {
                let sum = alone[i].spread().hypot(unfused[i].spread());
                assert!((both[i].spread() - sum).abs() <= 1e-12 * sum, "{kind} {i}");
            }
        }
    }

    #[test]
    fn a_state_stored_the_other_way_is_read_and_written_that_way() {
        let rules = Rules { is_k_major: true, ..Rules::default() };
        // S[v = 1][k = 0] = 3, and the key is (1, 0): 3 + (0 - 3) / 2, and again: 0.75, behind what v = 0 has
        let state = values(&net(false).run(&held("new_state"), rules));
        assert_eq!(state, [6.0, 0.75, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0]);
        assert_eq!(values(&net(false).run_unfused(&held("new_state"), rules)), state);
    }
}
