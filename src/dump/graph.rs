//! Checks the graph of a manifest: identities, sources, views; and finds where views get their values.

#![deny(clippy::indexing_slicing)]

use std::collections::HashMap;

use super::error::Defect;
use super::manifest::{Leaf, Manifest, Node, Origin, ViewOf};
use super::npy::payload_bytes;
use crate::tensor::{GgmlType, Layout, TensorId};

/// What follows from a valid graph.
pub(super) struct Graph {
    /// Node number by identity.
    pub(super) index: HashMap<TensorId, usize>,
    /// For each node that is a pure view, where its values come from.
    pub(super) bases: Vec<Option<Base>>,
}

/// Where a pure view's values come from.
#[derive(Clone, Copy)]
pub(super) struct Base {
    /// The tensor at the end of the chain of pure views: an operator's result or a leaf. Not always the
    /// view's root: an operator that works in place (SET, CPY) returns a tensor in its root's memory.
    pub(super) origin: Origin,
    /// Bytes from the base's first byte to the view's; none if the view does not lie within the base, or
    /// another operator has since written into the root, so that the base's payload is not what the view saw.
    pub(super) offset: Option<u64>,
}

impl Graph {
    /// Whether a node's values are in the dump: stored, or a pure view of a tensor that is.
    pub(super) fn has_values(&self, manifest: &Manifest, node: &Node) -> bool {
        node.entry.is_some() || self.base_entry(manifest, node).is_some()
    }

    /// The entry of the tensor that a pure view shows, and where in its payload the view starts.
    pub(super) fn base_entry<'a>(&self, manifest: &'a Manifest, node: &Node) -> Option<(&'a str, u64)> {
        let base = self.bases.get(node.id as usize)?.as_ref()?;
        let entry = match base.origin {
            Origin::Node(id) => manifest.nodes.get(id as usize)?.entry.as_deref()?,
            Origin::Leaf(id) => manifest.leaves.get(id as usize)?.entry.as_deref()?,
        };
        Some((entry, base.offset?))
    }
}

/// A source or root, be it a node or a leaf.
struct Tensor<'a> {
    name: &'a str,
    step: Option<u32>,
    layout: Layout,
    ty: GgmlType,
    view_of: Option<&'a ViewOf>,
    contiguous: bool,
}

/// Checks identities, extents, sources and views of all nodes and leaves.
pub(super) fn check(manifest: &Manifest) -> Result<Graph, Defect> {
    check_ids(&manifest.leaves, |leaf| leaf.id, Leaf::label)?;
    check_ids(&manifest.nodes, |node| node.id, Node::label)?;
    for leaf in &manifest.leaves {
        check_extents(leaf.ty, leaf.ne, || leaf.label())?;
    }
    let index = check_identities(&manifest.nodes)?;
    let mut bases: Vec<Option<Base>> = Vec::with_capacity(manifest.nodes.len());
    let mut writers = HashMap::new(); // root -> the last node that wrote into it
    for node in &manifest.nodes {
        check_node(node)?;
        for (slot, source) in node.sources.iter().enumerate() {
            let Some(source) = source else { continue };
            find(manifest, node, || format!("source {slot}"), source.from, &source.name)?;
        }
        if let Some(view) = &node.view_of {
            check_root(manifest, node, view)?;
        }
        if node.is_pure_view() {
            bases.push(Some(base(manifest, &bases, &writers, node)?));
        } else {
            bases.push(None);
            if let Some(view) = &node.view_of {
                writers.insert(view.root, node.id);
            }
        }
    }
    Ok(Graph { index, bases })
}

fn check_ids<T>(items: &[T], id: fn(&T) -> u32, label: fn(&T) -> String) -> Result<(), Defect> {
    let mut seen = HashMap::with_capacity(items.len());
    for item in items {
        if let Some(other) = seen.insert(id(item), item) {
            return Err(Defect::DuplicateId { item: label(item), other: label(other) });
        }
    }
    match items.iter().zip(0u64..).find(|&(item, expected)| u64::from(id(item)) != expected) {
        Some((item, expected)) => Err(Defect::IdOrder { item: label(item), expected }),
        None => Ok(()),
    }
}

fn check_identities(nodes: &[Node]) -> Result<HashMap<TensorId, usize>, Defect> {
    let mut index = HashMap::with_capacity(nodes.len());
    for (i, node) in nodes.iter().enumerate() {
        if let Some(first) = index.insert(node.id(), i) {
            return Err(Defect::DuplicateTensor { id: node.id(), first: first as u32, second: node.id });
        }
    }
    let mut counts: HashMap<(u32, &str), u32> = HashMap::with_capacity(nodes.len());
    for node in nodes {
        let expected = counts.entry((node.step, &node.name)).or_default();
        if node.occurrence != *expected {
            let (expected, got) = (*expected, node.occurrence);
            return Err(Defect::Occurrence { item: node.label(), expected, got });
        }
        *expected += 1;
    }
    Ok(index)
}

fn check_extents(ty: GgmlType, ne: [u64; 4], item: impl Fn() -> String) -> Result<(), Defect> {
    match payload_bytes(ty, ne) {
        Some(bytes) if i64::try_from(bytes).is_ok() => Ok(()),
        _ => Err(Defect::Extents { item: item(), ne, ty }),
    }
}

fn check_node(node: &Node) -> Result<(), Defect> {
    check_extents(node.ty, node.ne, || node.label())?;
    let expected = is_contiguous(node.ty, &node.layout());
    if node.contiguous != expected {
        let (item, got, ne, nb) = (node.label(), node.contiguous, node.ne, node.nb);
        return Err(Defect::Contiguous { item, expected, got, ne, nb });
    }
    let expected = matches!(node.op.as_str(), "UNARY" | "GLU");
    if node.variant.is_some() != expected {
        return Err(Defect::Variant { item: node.label(), op: node.op.clone(), expected });
    }
    let first = node.sources.first().and_then(Option::as_ref);
    if node.is_pure_view() && (first.is_none() || node.view_of.is_none()) {
        return Err(Defect::NoRoot { item: node.label(), op: node.op.clone() });
    }
    Ok(())
}

/// Looks a source or root up and checks that it is earlier, in the same step, and has the name given.
fn find<'a>(
    manifest: &'a Manifest,
    node: &Node,
    role: impl Fn() -> String,
    origin: Origin,
    name: &str,
) -> Result<Tensor<'a>, Defect> {
    let tensor = tensor(manifest, origin).ok_or_else(|| Defect::Dangling {
        item: node.label(),
        role: role(),
        to: origin.to_string(),
    })?;
    let to = || format!("{origin} '{}'", tensor.name);
    if matches!(origin, Origin::Node(id) if id >= node.id) {
        return Err(Defect::Later { item: node.label(), role: role(), to: to() });
    }
    if tensor.step.is_some_and(|step| step != node.step) {
        return Err(Defect::OtherStep { item: node.label(), role: role(), to: to() });
    }
    if tensor.name != name {
        let got = name.to_owned();
        return Err(Defect::OtherName { item: node.label(), role: role(), to: to(), got });
    }
    Ok(tensor)
}

fn tensor(manifest: &Manifest, origin: Origin) -> Option<Tensor<'_>> {
    match origin {
        Origin::Node(id) => manifest.nodes.get(id as usize).map(|node| Tensor {
            name: &node.name,
            step: Some(node.step),
            layout: node.layout(),
            ty: node.ty,
            view_of: node.view_of.as_ref(),
            contiguous: node.contiguous,
        }),
        Origin::Leaf(id) => manifest.leaves.get(id as usize).map(|leaf| {
            let layout = Layout { ne: leaf.ne, nb: leaf.nb };
            let contiguous = is_contiguous(leaf.ty, &layout);
            Tensor { name: &leaf.name, step: leaf.step, layout, ty: leaf.ty, view_of: None, contiguous }
        }),
    }
}

fn check_root(manifest: &Manifest, node: &Node, view: &ViewOf) -> Result<(), Defect> {
    let root = find(manifest, node, || "view_of".to_owned(), view.root, &view.name)?;
    let shown = || format!("{} '{}'", view.root, view.name);
    if root.view_of.is_some() {
        return Err(Defect::RootIsView { item: node.label(), root: shown() });
    }
    if !root.contiguous && matches!(view.root, Origin::Node(_)) {
        return Err(Defect::RootNotContiguous { item: node.label(), root: shown() });
    }
    let have = span(root.ty, &root.layout);
    let needed = span(node.ty, &node.layout()).and_then(|bytes| bytes.checked_add(view.offset));
    if needed.is_none() || needed > have {
        let bytes = |n: Option<u64>| n.map_or("too many".to_owned(), |n| n.to_string());
        let detail =
            format!("needs {} bytes from offset {}, it has {}", bytes(needed), view.offset, bytes(have));
        return Err(Defect::ViewOutside { item: node.label(), root: shown(), detail });
    }
    Ok(())
}

/// Follows a pure view through its first source to the tensor that has its values.
fn base(
    manifest: &Manifest,
    bases: &[Option<Base>],
    writers: &HashMap<Origin, u32>,
    node: &Node,
) -> Result<Base, Defect> {
    let no_root = || Defect::NoRoot { item: node.label(), op: node.op.clone() };
    let source = node.sources.first().and_then(Option::as_ref).ok_or_else(no_root)?.from;
    let view = node.view_of.as_ref().ok_or_else(no_root)?;
    let viewed = tensor(manifest, source).ok_or_else(no_root)?;
    let expected = viewed.view_of.map_or(source, |view| view.root);
    if view.root != expected {
        let (expected, got) = (expected.to_string(), view.root.to_string());
        return Err(Defect::OtherRoot { item: node.label(), expected, got });
    }
    let origin = match source {
        Origin::Node(id) => {
            bases.get(id as usize).and_then(Option::as_ref).map_or(source, |base| base.origin)
        }
        Origin::Leaf(_) => source,
    };
    let last_writer = writers.get(&view.root).map_or(view.root, |&id| Origin::Node(id));
    let offset =
        tensor(manifest, origin).filter(|base| base.contiguous && last_writer == origin).and_then(|base| {
            let offset = view.offset.checked_sub(base.view_of.map_or(0, |view| view.offset))?;
            let end = span(node.ty, &node.layout())?.checked_add(offset)?;
            (end <= span(base.ty, &base.layout)?).then_some(offset)
        });
    Ok(Base { origin, offset })
}

/// The layout in units of blocks, so that a plain element is a block of one.
pub(super) fn in_blocks(ty: GgmlType, layout: &Layout) -> Layout {
    let [ne0, ne1, ne2, ne3] = layout.ne;
    Layout { ne: [ne0 / ty.block_elements() as u64, ne1, ne2, ne3], nb: layout.nb }
}

/// `ggml_is_contiguous`.
fn is_contiguous(ty: GgmlType, layout: &Layout) -> bool {
    in_blocks(ty, layout).is_packed(ty.block_bytes() as u64)
}

/// Bytes from the first element to the end of the last, or none on overflow.
fn span(ty: GgmlType, layout: &Layout) -> Option<u64> {
    let Layout { ne, nb } = in_blocks(ty, layout);
    if ne.contains(&0) {
        return Some(0);
    }
    let block = ty.block_bytes() as u64;
    ne.iter().zip(nb).try_fold(block, |bytes, (&ne, nb)| bytes.checked_add((ne - 1).checked_mul(nb)?))
}
