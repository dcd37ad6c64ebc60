//! One place that a question looks at: a layer, or what lies outside of the layers, in one step.

use super::trial::{Looked, Stop, Trial};
use super::{AskError, Held, Subject};
use crate::compare::Score;
use crate::dump::{Node, Origin, Ubatch};
use crate::model::{Fold, Hparams, LayerKind, Transform};
use crate::ops::Tracked;
use crate::question::Question;
use crate::tensor::{GgmlType, TensorId};

/// A layer in one step.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    pub(super) subject: Subject<'a>,
    /// Which evaluation of the graph.
    pub step: u32,
    /// Which layer; none for what comes before and after them.
    pub layer: Option<usize>,
    /// The tensor and the candidate whose values are to be kept; none unless they are asked for.
    pub(super) keep: Option<(&'a TensorId, usize)>,
}

impl<'a> Site<'a> {
    /// The model's sizes.
    pub(in crate::question) fn hparams(&self) -> &'a Hparams {
        self.subject.model.hparams()
    }

    /// The model's fold.
    ///
    /// # Errors
    /// If it has none: the question does not apply.
    pub(in crate::question) fn fold(&self) -> Result<&'a Fold, Stop> {
        let none = || Stop::NotApplicable("the model declares no Hadamard fold".to_owned());
        self.subject.model.fold().ok_or_else(none)
    }

    /// The transform in front of a weight of this layer, by its bare name (`ssm_out`).
    ///
    /// # Errors
    /// If the weight is not folded.
    pub(in crate::question) fn transform(&self, weight: &str) -> Result<Transform<'a>, Stop> {
        let name = self.weight_name(weight);
        let width = self.subject.model.matrix(&name)?.n_in;
        self.fold()?
            .transform(&name, width)
            .ok_or_else(|| Stop::NotApplicable(format!("{weight} is not folded")))
    }

    /// `blk.3.ssm_out.weight` for `ssm_out`; `output.weight` outside of the layers.
    pub(in crate::question) fn weight_name(&self, weight: &str) -> String {
        match (self.layer, weight) {
            (Some(il), weight) => format!("blk.{il}.{weight}.weight"),
            (None, "output") => self.subject.model.output_name().to_owned(),
            (None, weight) => format!("{weight}.weight"),
        }
    }

    /// The elements of a small tensor of this layer by the rest of its name (`ssm_dt.bias`), as they are given.
    ///
    /// # Errors
    /// If the model has none.
    pub(in crate::question) fn vector(&self, rest: &str) -> Result<Vec<Tracked>, Stop> {
        let name = self.layer.map_or_else(|| rest.to_owned(), |il| format!("blk.{il}.{rest}"));
        let values = self.subject.model.vector(&name)?;
        Ok(values.into_iter().map(|x| Tracked::exact(x.into())).collect())
    }

    /// Passes if this is a layer of this kind.
    ///
    /// # Errors
    /// If it is something else.
    pub(in crate::question) fn require(&self, kind: LayerKind) -> Result<usize, Stop> {
        let layer = self.layer.filter(|&il| self.hparams().layers[il] == kind);
        layer.ok_or(Stop::Elsewhere)
    }

    /// What was evaluated in this step.
    pub(in crate::question) fn ubatch(&self) -> &'a Ubatch {
        &self.subject.dump.manifest().run.ubatches[self.step as usize]
    }

    /// A tensor of this layer by its kind (`Kcur` for `Kcur-3`), the first of its name.
    ///
    /// # Errors
    /// If the dump does not hold it.
    pub(in crate::question) fn tensor(&self, kind: &str) -> Result<Held, Stop> {
        self.occurrence(kind, 0)
    }

    /// The first of these kinds that the dump holds: what trees of llama.cpp call differently.
    ///
    /// # Errors
    /// If it holds none of them.
    pub(in crate::question) fn first_of(&self, kinds: &[&str]) -> Result<Held, Stop> {
        let mut found = Err(Stop::Elsewhere);
        for kind in kinds {
            found = self.tensor(kind);
            if !matches!(found, Err(Stop::NotHeld(_))) {
                break;
            }
        }
        found
    }

    /// The nth tensor of a kind in this layer.
    ///
    /// # Errors
    /// If the dump does not hold it.
    pub(in crate::question) fn occurrence(&self, kind: &str, occurrence: u32) -> Result<Held, Stop> {
        self.at(self.id(kind, occurrence))
    }

    fn id(&self, kind: &str, occurrence: u32) -> TensorId {
        let name = self.layer.map_or_else(|| kind.to_owned(), |il| format!("{kind}-{il}"));
        TensorId { step: self.step, name, occurrence }
    }

    /// What this layer is given: the embedding, or the result of the layer before; outside of the layers, the last one's.
    ///
    /// # Errors
    /// If the dump does not hold it.
    pub(in crate::question) fn residual(&self) -> Result<Held, Stop> {
        let before = self.layer.unwrap_or(self.hparams().n_layer).checked_sub(1);
        Site { layer: before, ..*self }.tensor(if before.is_some() { "l_out" } else { "model.input_embed" })
    }

    pub(super) fn at(&self, id: TensorId) -> Result<Held, Stop> {
        let dump = self.subject.dump;
        let not_held = || Stop::NotHeld(id.kind().to_owned());
        self.held(dump.find(&id).ok_or_else(not_held)?)
    }

    /// What the operator read that computed the first tensor of a kind in this layer, whether that has a name or not.
    ///
    /// # Errors
    /// If the dump does not hold it, or no graph, or the operator is another one.
    pub(super) fn source(&self, kind: &str, op: &str, place: usize) -> Result<Held, Stop> {
        let dump = self.subject.dump;
        let node = dump.find(&self.id(kind, 0)).filter(|node| node.op == op);
        let source = node.and_then(|node| match node.sources.get(place)?.as_ref()?.from {
            Origin::Node(id) => dump.node(id),
            Origin::Leaf(_) => None,
        });
        self.held(source.ok_or_else(|| Stop::NotHeld(format!("source {place} of {kind}")))?)
    }

    fn held(&self, node: &Node) -> Result<Held, Stop> {
        let (dump, id) = (self.subject.dump, node.id());
        let kind = || id.kind().to_owned();
        let values = match node.ty {
            GgmlType::F32 => dump.f32(node)?,
            ty if dump.bytes(node)?.is_some() => return Err(Stop::OtherType { kind: kind(), ty }),
            _ => None,
        };
        let values = values.ok_or_else(|| Stop::NotHeld(kind()))?.into_owned();
        let [n0, n1, n2, n3] = node.ne.map(|n| n as usize);
        Ok(Held { id, shape: [n3, n2, n1, n0], values })
    }

    /// Scores what each candidate makes of the reference's tensor; `group` is what answers are given for (`attn_qkv`). None for a
    /// candidate that cannot be on this model.
    ///
    /// # Errors
    /// Those of the candidates, and if one makes another number of elements.
    pub(in crate::question) fn trial(
        &self,
        question: &Question,
        group: &str,
        reference: Held,
        mut predict: impl FnMut(&str) -> Result<Option<Vec<Tracked>>, Stop>,
    ) -> Result<Trial, Stop> {
        let mut scores = Vec::with_capacity(question.candidates.len());
        let mut kept = None;
        for (i, candidate) in question.candidates.iter().enumerate() {
            let numbers = predict(candidate.name)?;
            let score = numbers.as_ref().map(|numbers| self.score(&reference, numbers));
            scores.push(score.transpose()?);
            if self.keep == Some((&reference.id, i)) {
                kept = numbers;
            }
        }
        Ok(Trial { group: group.to_owned(), reference, layer: self.layer, scores, kept })
    }

    /// How well numbers explain a tensor.
    ///
    /// # Errors
    /// If they are more or fewer.
    pub(super) fn score(&self, reference: &Held, numbers: &[Tracked]) -> Result<Score, Stop> {
        let compare = |source| AskError::Compare { tensor: reference.id.to_string(), source };
        Ok(Score::measure(&reference.values, &super::held::predicted(numbers)).map_err(compare)?)
    }

    /// The one trial of a site.
    ///
    /// # Errors
    /// As [`Site::trial`].
    pub(in crate::question) fn only(
        &self,
        question: &Question,
        group: &str,
        reference: Held,
        predict: impl FnMut(&str) -> Result<Option<Vec<Tracked>>, Stop>,
    ) -> Looked {
        Ok(vec![self.trial(question, group, reference, predict)?])
    }
}
