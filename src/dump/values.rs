//! Handing out payloads: stored ones as slices of the map, pure views derived from what they view.

#![deny(clippy::indexing_slicing)]

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use super::error::{Defect, DumpError};
use super::graph::in_blocks;
use super::manifest::{Leaf, Node};
use super::npy::payload_bytes;
use super::read::{Dump, refused};
use crate::tensor::{GgmlType, gather};

impl Dump {
    /// Whether a node's values are in the dump: stored, or a pure view of a tensor that is.
    ///
    /// A pure view whose memory an operator has overwritten in place, with a result that is not stored,
    /// has no values even if its root has.
    pub fn has_values(&self, node: &Node) -> bool {
        self.graph.has_values(&self.manifest, node)
    }

    /// A node's logical values, contiguous, dimension 0 fastest; none if they are not in the dump.
    /// Borrowed from the map, unless a strided view had to be gathered.
    ///
    /// # Errors
    /// If the payload's checksum is wrong, or the node is a view that is stored although its root is stored
    /// too, and the two do not agree. Both are checked when a payload is first handed out.
    pub fn bytes(&self, node: &Node) -> Result<Option<Cow<'_, [u8]>>, DumpError> {
        self.values(node).map_err(|defect| refused(self.path(), defect))
    }

    /// A node's values as f32, in the order of [`Dump::bytes`]; none if they are not in the dump. Copied only
    /// if the entry is not aligned in the file.
    ///
    /// # Errors
    /// Those of [`Dump::bytes`], and [`DumpError::NotF32`] if the node has another type.
    pub fn f32(&self, node: &Node) -> Result<Option<Cow<'_, [f32]>>, DumpError> {
        if node.ty != GgmlType::F32 {
            return Err(DumpError::NotF32 { path: self.path().to_owned(), item: node.label(), ty: node.ty });
        }
        Ok(self.bytes(node)?.map(to_f32))
    }

    /// An input leaf's values, contiguous, dimension 0 fastest; none for weights, caches and inputs without
    /// elements.
    ///
    /// # Errors
    /// If the payload's checksum is wrong.
    pub fn leaf_bytes(&self, leaf: &Leaf) -> Result<Option<Cow<'_, [u8]>>, DumpError> {
        let payload = leaf.entry.as_deref().map(|entry| self.payload(entry, || leaf.label())).transpose();
        Ok(payload.map_err(|defect| refused(self.path(), defect))?.map(Cow::Borrowed))
    }

    /// Reads every payload once: all checksums, and all views that are stored beside their roots.
    ///
    /// # Errors
    /// The first error that [`Dump::bytes`] or [`Dump::leaf_bytes`] gives.
    pub fn verify(&self) -> Result<(), DumpError> {
        for leaf in self.leaves() {
            self.leaf_bytes(leaf)?;
        }
        for node in self.nodes().iter().filter(|node| node.entry.is_some()) {
            self.bytes(node)?;
        }
        Ok(())
    }

    fn values(&self, node: &Node) -> Result<Option<Cow<'_, [u8]>>, Defect> {
        let Some(entry) = &node.entry else { return self.derived(node) };
        let stored = self.payload(entry, || node.label())?;
        let agreed = self.agreed.get(node.id as usize);
        if !agreed.is_some_and(|agreed| agreed.load(Ordering::Relaxed)) {
            self.check_agreement(node, entry, stored)?;
            if let Some(agreed) = agreed {
                agreed.store(true, Ordering::Relaxed);
            }
        }
        Ok(Some(Cow::Borrowed(stored)))
    }

    /// The payload of an entry, its checksum verified.
    pub(super) fn payload(&self, entry: &str, item: impl Fn() -> String) -> Result<&[u8], Defect> {
        let missing = || Defect::MissingEntry { item: item(), entry: entry.to_owned() };
        let header_bytes = *self.headers.get(entry).ok_or_else(missing)?;
        let found = self.archive.find(&format!("{entry}.npy")).ok_or_else(missing)?;
        Ok(self.archive.bytes(found)?.get(header_bytes..).unwrap_or_default())
    }

    /// A pure view's values, from the tensor that it shows.
    fn derived(&self, node: &Node) -> Result<Option<Cow<'_, [u8]>>, Defect> {
        let Some((entry, offset)) = self.graph.base_entry(&self.manifest, node) else { return Ok(None) };
        let memory = self.payload(entry, || node.label())?;
        if node.contiguous
            && let Some(values) = packed(memory, offset, node)
        {
            return Ok(Some(Cow::Borrowed(values)));
        }
        let layout = in_blocks(node.ty, &node.layout());
        match gather(memory, &layout, offset, node.ty.block_bytes()) {
            Ok(values) => Ok(Some(Cow::Owned(values))),
            Err(source) => Err(Defect::Strided { item: node.label(), source }),
        }
    }

    /// Checks that a pure view with an entry of its own shows what its base's entry holds.
    fn check_agreement(&self, node: &Node, entry: &str, stored: &[u8]) -> Result<(), Defect> {
        let Some((base, offset)) =
            self.graph.base_entry(&self.manifest, node).filter(|&(base, _)| base != entry)
        else {
            return Ok(());
        };
        let Some(expected) = self.derived(node)? else { return Ok(()) };
        if *expected == *stored {
            return Ok(());
        }
        let (entry, item) = (entry.to_owned(), node.label());
        let root =
            node.view_of.as_ref().map_or(String::new(), |view| format!("{} '{}'", view.root, view.name));
        let memory = self.payload(base, || node.label())?;
        let as_packed = |offset| packed(memory, offset, node).is_some_and(|bytes| bytes == stored);
        if as_packed(0) || as_packed(offset) {
            return Err(Defect::PackedView { entry, item, root, nb: node.nb });
        }
        let at = expected.iter().zip(stored).position(|(a, b)| a != b).unwrap_or(0);
        Err(Defect::ViewDisagrees { entry, item, root, at })
    }
}

/// As many bytes as a node has, from an offset.
fn packed<'a>(memory: &'a [u8], offset: u64, node: &Node) -> Option<&'a [u8]> {
    let end = offset.checked_add(payload_bytes(node.ty, node.ne)?)?;
    memory.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
}

/// Reinterprets little-endian bytes, or copies them if they are not aligned.
fn to_f32(bytes: Cow<'_, [u8]>) -> Cow<'_, [f32]> {
    if cfg!(target_endian = "little")
        && let Cow::Borrowed(bytes) = bytes
        && let Ok(values) = bytemuck::try_cast_slice(bytes)
    {
        return Cow::Borrowed(values);
    }
    let value = |chunk: &[u8; 4]| f32::from_le_bytes(*chunk);
    Cow::Owned(bytes.as_chunks().0.iter().map(value).collect())
}
