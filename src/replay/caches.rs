//! What the caches hold at each point of a run.

use std::collections::HashMap;

use super::evaluate::Evaluated;
use super::stored;
use crate::dump::{Dump, Leaf, LeafKind, MemoryChange, Node, Origin};
use crate::tensor::{GgmlType, Layout, gather};

/// The content of each cache leaf; none once a write to it could not be followed.
pub(super) struct Caches<'a> {
    contents: HashMap<u32, Option<Content>>,
    dump: &'a Dump,
}

/// What a cache holds.
struct Content {
    bytes: Vec<u8>,
    /// For each 4 bytes, how far an f32 that was evaluated may be from what the reference wrote; empty while all was held.
    slack: Vec<f64>,
}

/// What is read of a cache: packed bytes, and the slack of each f32; empty if there is none.
pub(super) type Read = (Vec<u8>, Vec<f64>);

impl<'a> Caches<'a> {
    /// All caches cleared, as llama.cpp does when it makes a context (`ggml_backend_buffer_clear` in llama-kv-cache.cpp and
    /// llama-memory-recurrent.cpp).
    pub(super) fn new(dump: &'a Dump) -> Caches<'a> {
        let caches = dump.leaves().iter().filter(|leaf| leaf.kind == LeafKind::Cache);
        let zero = |n: usize| Content { bytes: vec![0; n], slack: Vec::new() };
        let contents = caches.map(|leaf| (leaf.id, bytes_of(leaf).map(zero))).collect();
        Caches { contents, dump }
    }

    /// A view of a cache, or a whole one; none if its content is not known.
    pub(super) fn read(&self, leaf: u32, layout: &Layout, offset: u64, ty: GgmlType) -> Option<Read> {
        let content = self.contents.get(&leaf)?.as_ref()?;
        let bytes = gather(&content.bytes, &in_blocks(layout, ty)?, offset, ty.block_bytes()).ok()?;
        if content.slack.is_empty() {
            return Some((bytes, Vec::new()));
        }
        let of_f32 = (ty == GgmlType::F32).then(|| of_slack(layout, offset))?;
        let slack = gather(bytemuck::cast_slice(&content.slack), &of_f32.0, of_f32.1, SLACK).ok()?;
        let slack: Vec<f64> = slack.as_chunks().0.iter().map(|bytes| f64::from_ne_bytes(*bytes)).collect();
        let is_exact = slack.iter().all(|&slack| slack == 0.0);
        Some((bytes, if is_exact { Vec::new() } else { slack }))
    }

    /// Follows a node that writes into a cache: the values that the dump holds, else what was moved, with how far that may be from
    /// what the reference had.
    pub(super) fn write(&mut self, node: &Node, held: Option<&[u8]>, evaluated: Option<&Evaluated>) {
        let Some(view) = &node.view_of else { return };
        let Origin::Leaf(leaf) = view.root else { return };
        let Some(content) = self.contents.get_mut(&leaf) else { return };
        let moved = || {
            let Evaluated { exact, inherited, kernel, .. } = evaluated?;
            let is_moved = exact.additions == 0.0 || exact.values.iter().all(|&v| v == 0.0);
            let is_exact = inherited.iter().all(|&slack| slack == 0.0);
            if !is_moved || !is_exact && node.ty != GgmlType::F32 {
                return None;
            }
            let slack = if is_exact { Vec::new() } else { inherited.clone() };
            Some((stored::bytes(node.ty, &exact.values, *kernel)?, slack))
        };
        let written = held.map(|held| (held.to_vec(), Vec::new())).or_else(moved);
        let done = match (written, content.as_mut()) {
            (Some(written), Some(content)) => content.write(&written, &node.layout(), node.ty, view.offset),
            _ => None,
        };
        if done.is_none() {
            *content = None;
        }
    }

    /// Follows what was done to the memory between two steps. Clearing and removing leave the data as they are. A copy moves data
    /// only where each sequence has a KV buffer of its own, a stream with the sequence's number: all of it
    /// (`llama_kv_cache::seq_cp`). A recurrent state is shared until one of its sequences goes on, and gathered then.
    pub(super) fn change(&mut self, change: &MemoryChange, kv_unified: Option<bool>) {
        let MemoryChange::SeqCp { seq_id_src, seq_id_dst } = *change else { return };
        if kv_unified != Some(false) {
            return;
        }
        for (&id, content) in &mut self.contents {
            let leaf = self.dump.leaf(id).filter(|leaf| is_of_keys_or_values(&leaf.name));
            let (Some(leaf), Some(own)) = (leaf, content.as_mut()) else { continue };
            let slack = bytemuck::cast_slice_mut(&mut own.slack);
            let done = copy_stream(&mut own.bytes, leaf.nb[2], seq_id_src, seq_id_dst).and_then(|()| {
                let (_, bytes) = of_slack(&leaf.layout(), leaf.nb[2]);
                if slack.is_empty() { Some(()) } else { copy_stream(slack, bytes, seq_id_src, seq_id_dst) }
            });
            if done.is_none() {
                *content = None;
            }
        }
    }

    /// The leaf with this number, if it is a cache.
    pub(super) fn leaf(&self, id: u32) -> Option<&'a Leaf> {
        self.dump.leaf(id).filter(|leaf| leaf.kind == LeafKind::Cache)
    }
}

impl Content {
    /// Writes packed elements to where a view has them; none if one lies outside.
    fn write(&mut self, (bytes, slack): &Read, layout: &Layout, ty: GgmlType, offset: u64) -> Option<()> {
        scatter(bytes, &mut self.bytes, &in_blocks(layout, ty)?, offset, ty.block_bytes())?;
        if slack.is_empty() && self.slack.is_empty() {
            return Some(());
        }
        if self.slack.is_empty() {
            self.slack = vec![0.0; self.bytes.len() / size_of::<f32>()];
        }
        // What is of another type covers other parts of these words: then only what was held can stand here.
        let zeros = vec![0.0; (ty == GgmlType::F32).then(|| layout.elements())?? as usize];
        let slack = if slack.is_empty() { &zeros } else { slack };
        let (layout, offset) = of_slack(layout, offset);
        let content = bytemuck::cast_slice_mut(&mut self.slack);
        scatter(bytemuck::cast_slice(slack), content, &layout, offset, SLACK)
    }
}

/// Bytes of one f32's slack.
const SLACK: usize = size_of::<f64>();

/// Where the slack lies of what lies there.
fn of_slack(layout: &Layout, offset: u64) -> (Layout, u64) {
    let widen = |bytes: u64| bytes / size_of::<f32>() as u64 * SLACK as u64;
    (Layout { ne: layout.ne, nb: layout.nb.map(widen) }, widen(offset))
}

/// Whether a cache is one of `llama_kv_cache`, of which a model may have several: `cache_k_l3`, `cache_idx_k_l3`.
fn is_of_keys_or_values(name: &str) -> bool {
    let kind = name.strip_prefix("cache_").and_then(|rest| rest.rsplit_once("_l")).map(|(kind, _)| kind);
    kind.and_then(|kind| kind.rsplit('_').next()).is_some_and(|last| last == "k" || last == "v")
}

/// Copies one stream, of so many bytes, to another; none if there is no such stream.
fn copy_stream(content: &mut [u8], bytes: u64, src: i32, dst: i32) -> Option<()> {
    let bytes = usize::try_from(bytes).ok()?;
    let start = |stream: i32| usize::try_from(stream).ok()?.checked_mul(bytes);
    let (src, dst) = (start(src)?, start(dst)?);
    let end = src.checked_add(bytes)?;
    if end.max(dst.checked_add(bytes)?) > content.len() {
        return None;
    }
    content.copy_within(src..end, dst);
    Some(())
}

/// Bytes that a cache spans; none if that overflows.
fn bytes_of(leaf: &Leaf) -> Option<usize> {
    let bytes = leaf.nb[3].checked_mul(leaf.ne[3])?;
    usize::try_from(bytes).ok()
}

/// The layout with blocks for elements; none if a row has a part of one.
pub(super) fn in_blocks(layout: &Layout, ty: GgmlType) -> Option<Layout> {
    let ([ne0, rest @ ..], block) = (layout.ne, ty.block_elements() as u64);
    let [n1, n2, n3] = rest;
    ne0.is_multiple_of(block).then_some(Layout { ne: [ne0 / block, n1, n2, n3], nb: layout.nb })
}

/// Writes packed elements to where a view of `content` has them; none if one lies outside.
fn scatter(packed: &[u8], content: &mut [u8], layout: &Layout, offset: u64, element: usize) -> Option<()> {
    let Layout { ne, nb } = *layout;
    let mut elements = packed.chunks_exact(element);
    for i3 in 0..ne[3] {
        for i2 in 0..ne[2] {
            for i1 in 0..ne[1] {
                for i0 in 0..ne[0] {
                    let at = offset + i3 * nb[3] + i2 * nb[2] + i1 * nb[1] + i0 * nb[0];
                    content.get_mut(at as usize..)?.get_mut(..element)?.copy_from_slice(elements.next()?);
                }
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattering_undoes_gathering() {
        let mut content = [0u8; 6];
        let transposed = Layout { ne: [2, 3, 1, 1], nb: [3, 1, 6, 6] };
        scatter(&[0, 3, 1, 4, 2, 5], &mut content, &transposed, 0, 1).unwrap();
        assert_eq!(content, [0, 1, 2, 3, 4, 5]);
        assert_eq!(scatter(&[0; 6], &mut content, &transposed, 1, 1), None);
    }

    #[test]
    fn slack_lies_beside_what_was_evaluated_until_it_is_held() {
        let row = |n: u64| Layout { ne: [n, 1, 1, 1], nb: [4, 4 * n, 4 * n, 4 * n] };
        let mut content = Content { bytes: vec![0; 12], slack: Vec::new() };
        content.write(&(vec![1; 8], vec![0.25, 0.5]), &row(2), GgmlType::F32, 4).unwrap();
        assert_eq!(content.slack, [0.0, 0.25, 0.5]);
        content.write(&(vec![2; 4], Vec::new()), &row(1), GgmlType::F32, 8).unwrap();
        assert_eq!((content.slack, content.bytes[8..].to_vec()), (vec![0.0, 0.25, 0.0], vec![2; 4]));
    }

    #[test]
    fn a_stream_is_copied_whole() {
        let mut content = [1, 2, 3, 4, 5, 6];
        copy_stream(&mut content, 2, 0, 2).unwrap();
        assert_eq!(content, [1, 2, 3, 4, 1, 2]);
        for (src, dst) in [(0, 3), (3, 0), (-1, 0)] {
            assert_eq!(copy_stream(&mut content, 2, src, dst), None);
        }
    }

    #[test]
    fn keys_and_values_are_told_by_the_end_of_the_name() {
        for name in ["cache_k_l0", "cache_v_l12", "cache_idx_k_l3"] {
            assert!(is_of_keys_or_values(name), "{name}");
        }
        for name in ["cache_r_l0", "cache_s_l0", "cache_ple_r_l0", "mamba_ssm_states-1", "cache_k"] {
            assert!(!is_of_keys_or_values(name), "{name}");
        }
    }

    #[test]
    fn rows_of_blocks_are_moved_whole() {
        let rows = Layout { ne: [64, 2, 1, 1], nb: [34, 68, 136, 136] };
        let blocks = Layout { ne: [2, 2, 1, 1], nb: rows.nb };
        assert_eq!(in_blocks(&rows, GgmlType::Q8_0), Some(blocks));
        assert_eq!(in_blocks(&rows, GgmlType::F16), Some(rows));
        assert_eq!(in_blocks(&rows, GgmlType::Q4_K), None);
    }
}
