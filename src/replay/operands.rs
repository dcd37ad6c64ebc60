//! The sources of a node: from the dump, from the model's file, from a cache.

use super::caches::{Caches, Read};
use super::evaluate::{Run, is_unambiguous};
use super::results::Results;
use super::{snapshots, stored, weights};
use crate::dump::{Dump, DumpError, Leaf, LeafKind, Node, Origin, Source};
use crate::gguf::Gguf;
use crate::ops::exact::{Data, Operand, vec_dot_type};
use crate::quant;
use crate::tensor::GgmlType;

/// Where the sources come from.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    pub(super) gguf: &'a Gguf,
    pub(super) dump: &'a Dump,
    /// Whether a node without a name is evaluated even where the dump holds it, as an engine has only tensors with names and
    /// computes what lies between them itself.
    pub(super) by_name: bool,
}

/// What is known where a walk has come to.
#[derive(Clone, Copy)]
pub(super) struct Known<'w> {
    pub(super) caches: &'w Caches<'w>,
    pub(super) results: &'w Results,
    pub(super) run: &'w Run,
}

/// The sources of a node.
#[derive(Default)]
pub(super) struct Sources<'a> {
    /// Each source; an empty slot is none.
    pub(super) operands: Vec<Option<Operand<'a>>>,
    /// For those that were evaluated, mostly as the dump does not hold them: how far they may be from what the reference had.
    pub(super) derived: Vec<Option<Derived>>,
    /// Whether each lies in memory without gaps and in its own order.
    pub(super) contiguous: Vec<bool>,
}

/// A source that was evaluated, as the dump does not hold it.
#[derive(Clone)]
pub(super) struct Derived {
    pub(super) name: String,
    /// Per element, the largest distance that rounding explains.
    pub(super) slack: Vec<f64>,
}

pub(super) type Found<T> = Result<T, String>;
/// A source, with what is known of it if it had to be evaluated.
type Operated<'a> = (Operand<'a>, Option<Derived>);

impl<'a> Operands<'a> {
    /// All sources of a node, or why one of them is not to be had.
    pub(super) fn of(&self, node: &Node, known: Known<'_>) -> Result<Found<Sources<'a>>, DumpError> {
        let mut sources = Sources::default();
        for (index, source) in node.sources.iter().enumerate() {
            // The second source of a copy is where it goes, not what is copied.
            let is_target = matches!(node.op.as_str(), "CPY") && index == 1;
            let found = match source {
                Some(source) if !is_target => match self.find(source, known)? {
                    Ok((operand, derived)) => (Some(operand), derived),
                    Err(reason) => return Ok(Err(reason)),
                },
                _ => (None, None),
            };
            sources.contiguous.push(source.as_ref().is_none_or(|source| self.is_contiguous(source)));
            sources.operands.push(found.0);
            sources.derived.push(found.1);
        }
        Ok(Ok(sources))
    }

    fn is_contiguous(&self, source: &Source) -> bool {
        match source.from {
            Origin::Node(id) => self.dump.node(id).is_none_or(|node| node.contiguous),
            Origin::Leaf(_) => true,
        }
    }

    /// The types of the first two sources, `q8_0 x f32`, by which results are grouped.
    pub(super) fn types(&self, node: &Node) -> String {
        let name = |index: usize| {
            let source = node.sources.get(index)?.as_ref()?;
            let ty = match source.from {
                Origin::Node(id) => self.dump.node(id)?.ty,
                Origin::Leaf(id) => self.dump.leaf(id)?.ty,
            };
            Some(ty.name())
        };
        [name(0), name(1)].into_iter().flatten().collect::<Vec<_>>().join(" x ")
    }

    fn find(&self, source: &Source, known: Known<'_>) -> Result<Found<Operated<'a>>, DumpError> {
        let caches = known.caches;
        let name = &source.name;
        let held = match source.from {
            Origin::Node(id) => match self.dump.node(id) {
                None => Err(format!("a source is not in the graph: {name}")),
                Some(node) if self.is_between_names(node) => return self.derive(node, known),
                Some(node) => match self.dump.bytes(node)? {
                    Some(bytes) => plain(node.ty, node.ne, &bytes, name),
                    None => match node.view_of.as_ref().map(|view| view.root) {
                        Some(Origin::Leaf(leaf)) => match self.weight(leaf) {
                            Some(leaf) => weights::view(self.gguf, leaf, node),
                            None => return Ok(self.view_of_cache(node, caches)),
                        },
                        _ => return self.derive(node, known),
                    },
                },
            },
            Origin::Leaf(id) => match self.dump.leaf(id) {
                None => Err(format!("a source is not in the graph: {name}")),
                Some(leaf) => match leaf.kind {
                    LeafKind::Weight => weights::whole(self.gguf, name),
                    LeafKind::Cache => {
                        return Ok(of_cache(
                            caches.read(id, &leaf.layout(), 0, leaf.ty),
                            leaf.ty,
                            leaf.ne,
                            name,
                        ));
                    }
                    LeafKind::Input => match self.dump.leaf_bytes(leaf)? {
                        Some(bytes) => plain(leaf.ty, leaf.ne, &bytes, name),
                        None => Err(format!("an input is not in the dump: {name}")),
                    },
                },
            },
        };
        Ok(held.map(|operand| (operand, None)))
    }

    /// Whether neither a node nor, if it is a view, what it shows has a name.
    fn is_between_names(&self, node: &Node) -> bool {
        let shown = match self.dump.computed_by(node) {
            Origin::Node(computed) => self.dump.node(computed),
            Origin::Leaf(_) => None,
        };
        self.by_name && !node.is_named() && shown.is_some_and(|shown| !shown.is_named())
    }

    /// Evaluates a node that the dump does not hold, or the one that it is a view of, from what it was computed from.
    fn derive(&self, node: &Node, known: Known<'_>) -> Result<Found<Operated<'a>>, DumpError> {
        let missing = || Ok(Err(format!("a source is not in the dump: {}", node.name)));
        let computed = match self.dump.computed_by(node) {
            Origin::Node(computed) => self.dump.node(computed),
            Origin::Leaf(_) => None,
        };
        let Some(computed) = computed.filter(|computed| computed.ty == GgmlType::F32) else {
            return missing();
        };
        if let Some(result) = known.results.of(computed.id) {
            let selected =
                if computed.id == node.id { Ok(result.clone()) } else { result.select(computed, node) };
            return Ok(selected.map(|result| (result.into_source(node.ne).0, None)));
        }
        let Ok(sources) = self.of(computed, known)? else { return missing() };
        let run = known.run;
        if run.is_to_the_bit() || !is_unambiguous(computed, &sources, run) {
            return missing();
        }
        let selected = snapshots::evaluated(self.dump, computed, &sources, None, run).and_then(|evaluated| {
            if computed.id == node.id { Ok(evaluated) } else { evaluated.select(computed, node) }
        });
        let Ok(evaluated) = selected else { return missing() };
        let (operand, slack) = evaluated.into_source(node.ne);
        Ok(Ok((operand, Some(Derived { name: node.name.clone(), slack }))))
    }

    fn view_of_cache(&self, node: &Node, caches: &Caches<'_>) -> Found<Operated<'a>> {
        let name = &node.name;
        let missing = || format!("a source is not in the dump: {name}");
        let view = node.view_of.as_ref().filter(|_| node.is_pure_view()).ok_or_else(missing)?;
        let Origin::Leaf(leaf) = view.root else { return Err(missing()) };
        caches.leaf(leaf).ok_or_else(missing)?;
        let read = caches.read(leaf, &node.layout(), view.offset, node.ty);
        of_cache(read, node.ty, node.ne, &view.name)
    }

    /// The weight with this number; none if it is none.
    fn weight(&self, leaf: u32) -> Option<&'a Leaf> {
        self.dump.leaf(leaf).filter(|leaf| leaf.kind == LeafKind::Weight)
    }
}

/// What was read of a cache; where it was evaluated, with how far it may be from what the reference had.
fn of_cache<'a>(read: Option<Read>, ty: GgmlType, ne: [u64; 4], name: &str) -> Found<Operated<'a>> {
    let unknown = || format!("a cache is not known, as a node that writes it is not in the dump: {name}");
    let (bytes, slack) = read.ok_or_else(unknown)?;
    let derived = (!slack.is_empty()).then(|| Derived { name: name.to_owned(), slack });
    Ok((plain(ty, ne, &bytes, name)?, derived))
}

/// Packed bytes: of a plain type, or blocks.
pub(super) fn plain<'a>(ty: GgmlType, ne: [u64; 4], bytes: &[u8], name: &str) -> Found<Operand<'a>> {
    let data = match ty {
        GgmlType::I32 | GgmlType::I64 => Data::Int(stored::integers(ty, bytes).unwrap_or_default()),
        // Formats with a minimum have two sums in a product, which values alone do not tell.
        _ if ty.block_elements() > 1 && vec_dot_type(ty) != Some(GgmlType::Q8_0) => {
            return Err(format!("a source of type {ty} is not evaluated: {name}"));
        }
        _ => {
            let elements = ne.iter().product::<u64>() as usize;
            let mut values = vec![0.0; elements];
            quant::decode(ty, bytes, &mut values)
                .map_err(|e| format!("a source of type {ty} cannot be decoded: {name}, {e}"))?;
            if ty == GgmlType::F32 { Data::Float(values) } else { Data::Narrow(ty, values) }
        }
    };
    Ok(Operand { ne, data })
}
