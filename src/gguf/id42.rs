//! What type id 42 means in a file.
//!
//! Upstream llama.cpp gives id 42 to `q2_0`: blocks of 64 elements in 18 bytes. Older PrismML files
//! give it to what is now `pq2_0` (id 142): blocks of 128 elements in 34 bytes. Nothing in the table
//! tells them apart but the room that each tensor has: 36 against 34 bytes for 128 elements. Tensors of
//! fewer than some 2000 elements suit both, because of the padding, so all tensors decide together.
#![deny(clippy::indexing_slicing)]

use super::GgufError;
use super::header::{Header, RawTensor};
use super::table::tensor_bytes;
use crate::tensor::GgmlType;

/// How the tensors of type id 42 fit each layout, over all parts of a model.
pub(super) struct Census {
    /// Tensors of this type.
    pub(super) count: usize,
    upstream: bool,
    prism: bool,
}

impl Census {
    pub(super) fn new() -> Census {
        Census { count: 0, upstream: true, prism: true }
    }

    /// Counts in the tensors of one file.
    ///
    /// # Errors
    /// If a tensor suits no layout that all tensors before it suit.
    pub(super) fn add(&mut self, header: &Header, file_bytes: u64) -> Result<(), GgufError> {
        let mut starts: Vec<u64> = header.tensors.iter().map(|tensor| tensor.offset).collect();
        starts.sort_unstable();
        let end = file_bytes.saturating_sub(header.data_start);
        for raw in header.tensors.iter().filter(|raw| raw.type_id == GgmlType::Q2_0.id()) {
            let next = starts.get(starts.partition_point(|&start| start <= raw.offset)).copied();
            let room = next.unwrap_or(end).saturating_sub(raw.offset);
            let suits = |bytes: u64| {
                let padded = bytes.checked_next_multiple_of(header.alignment);
                // The last tensor of a file need not be padded.
                bytes <= room && if next.is_some() { padded == Some(room) } else { padded >= Some(room) }
            };
            let upstream = tensor_bytes(&raw.name, raw.ne, GgmlType::Q2_0)?;
            let prism = prism_bytes(raw);
            self.count += 1;
            self.upstream &= suits(upstream);
            self.prism &= prism.is_some_and(suits);
            if !self.upstream && !self.prism {
                return Err(GgufError::Id42 {
                    name: raw.name.clone(),
                    got: room,
                    upstream,
                    prism: prism.unwrap_or(0),
                });
            }
        }
        Ok(())
    }

    /// The type that id 42 stands for, and a note if it is not, or may not be, upstream's.
    pub(super) fn decide(&self) -> (GgmlType, Option<String>) {
        let count = self.count;
        match (self.upstream, self.prism) {
            _ if count == 0 => (GgmlType::Q2_0, None),
            (true, false) => (GgmlType::Q2_0, None),
            (true, true) => (
                GgmlType::Q2_0,
                Some(format!(
                    "{count} tensors of type id 42 are so small that they fit as q2_0 (64 per block) and as the \
                     older PrismML layout (128 per block): read as q2_0"
                )),
            ),
            (false, _) => (
                GgmlType::PQ2_0,
                Some(format!(
                    "{count} tensors of type id 42 have blocks of 128 elements in 34 bytes, as older PrismML \
                     files do, where upstream's q2_0 has 64 in 18: read as pq2_0"
                )),
            ),
        }
    }
}

/// Bytes in the older PrismML layout, if the rows consist of its blocks.
fn prism_bytes(raw: &RawTensor) -> Option<u64> {
    tensor_bytes(&raw.name, raw.ne, GgmlType::PQ2_0).ok()
}
