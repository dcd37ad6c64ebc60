//! Writing a run of an engine as a dump.
//!
//! The dump holds every tensor that the engine emits, under llama.cpp's names. An engine knows no graph: each node has
//! the operator `NONE` and no sources.

use std::collections::BTreeSet;
use std::path::Path;

use super::steps::memory_change;
use super::{HarnessError, Step};
use crate::dump::{Capture, DumpWriter, Manifest, Model, Node, Producer, Run, Ubatch as DumpUbatch, runs};
use crate::engine::{Engine, Memory, Tap, TapError};
use crate::tensor::{GgmlType, Layout, TensorId, Values};

/// A tap that writes what it is given.
pub struct Recorder {
    writer: DumpWriter,
    nodes: Vec<Node>,
    ubatches: Vec<DumpUbatch>,
}

impl Recorder {
    /// Starts a dump at `path`; the file appears once it is finished.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn create(path: &Path) -> Result<Recorder, HarnessError> {
        let writer = DumpWriter::create(path)?;
        Ok(Recorder { writer, nodes: Vec::new(), ubatches: Vec::new() })
    }

    /// Takes one step and records it; returns its logits.
    ///
    /// # Errors
    /// If the engine cannot run or the file cannot be written.
    pub fn step(
        &mut self,
        engine: &mut dyn Engine,
        step: &Step,
    ) -> Result<ndarray::Array2<f32>, HarnessError> {
        let logits = step.run(engine, self)?;
        let ubatch = &step.ubatch;
        self.ubatches.push(DumpUbatch {
            step: self.ubatches.len() as u32,
            tokens: ubatch.tokens.iter().map(|&t| t as i32).collect(),
            positions: ubatch.positions.iter().map(|&p| p as i32).collect(),
            seq_ids: ubatch.sequences.iter().map(|&sequence| vec![sequence]).collect(),
            outputs: ubatch.outputs.iter().map(|&o| o.into()).collect(),
            before: step.before.iter().copied().map(memory_change).collect(),
        });
        Ok(logits)
    }

    /// Finishes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(
        self,
        engine: &str,
        model: Model,
        (memory, n_ctx): (Memory, u32),
        generated: u32,
    ) -> Result<(), HarnessError> {
        let sequences: BTreeSet<i32> =
            self.ubatches.iter().flat_map(|ubatch| ubatch.seq_ids.iter().flatten().copied()).collect();
        let n_seq_max = sequences.last().map_or(1, |&last| last.unsigned_abs() + 1);
        let n_streams = if memory.kv_unified { 1 } else { n_seq_max };
        let schedule: Vec<u32> = self.ubatches.iter().map(|u| u.tokens.len() as u32).collect();
        let largest = schedule.iter().copied().max().unwrap_or(0);
        let manifest = Manifest {
            producer: Producer {
                name: "lockstep".to_owned(),
                build: 0,
                commit: env!("CARGO_PKG_VERSION").to_owned(),
                backend: engine.to_owned(),
                system_info: String::new(),
                compiler: String::new(),
                libc: String::new(),
                dumper: concat!("lockstep ", env!("CARGO_PKG_VERSION")).to_owned(),
                changes: None,
            },
            model,
            run: Run {
                ubatches: self.ubatches,
                schedule,
                script: None,
                generated,
                prompt: None,
                n_ctx: n_ctx * n_streams,
                n_seq_max,
                kv_unified: (n_seq_max > 1).then_some(memory.kv_unified),
                n_rs_seq: memory.n_rs_seq as u32,
                n_batch: largest,
                n_ubatch: largest,
                n_threads: 0,
                flash_attn: false,
                type_k: GgmlType::F32.name().to_owned(),
                type_v: GgmlType::F32.name().to_owned(),
                repack: None,
                reference_kernels: false,
                fused_gdn: None,
                filters: Vec::new(),
                until: None,
                named_only: true,
                views: true,
                selected: runs(self.nodes.iter().map(|node| !node.ne.contains(&0))),
            },
            // An engine's tap only reads: there is no run without it to compare with.
            capture: Capture { unchanged: true, compared_logits: 0, first_difference: None },
            leaves: Vec::new(),
            nodes: self.nodes,
        };
        self.writer.finish(&manifest)?;
        Ok(())
    }

    fn record(&mut self, id: &TensorId, ne: [u64; 4], values: Values<'_>) -> Result<(), HarnessError> {
        let (ty, bytes) = match values {
            Values::F32(values) => (GgmlType::F32, bytemuck::cast_slice(values)),
            Values::F64(values) => (GgmlType::F64, bytemuck::cast_slice(values)),
        };
        let entry = match id.occurrence {
            0 => format!("{}/{}", id.step, id.name),
            n => format!("{}/{}.{n}", id.step, id.name),
        };
        self.writer.add_payload(&entry, bytes, ty, ne)?;
        let nb = Layout::packed(ne, ty.block_bytes() as u64).map_or([0; 4], |layout| layout.nb);
        self.nodes.push(Node {
            id: self.nodes.len() as u32,
            step: id.step,
            name: id.name.clone(),
            occurrence: id.occurrence,
            op: "NONE".to_owned(),
            variant: None,
            params: Vec::new(),
            ty,
            ne,
            nb,
            contiguous: true,
            sources: Vec::new(),
            view_of: None,
            entry: Some(entry),
        });
        Ok(())
    }
}

impl Tap for Recorder {
    fn tensor(
        &mut self,
        id: &TensorId,
        ne: [u64; 4],
        values: Values<'_>,
    ) -> Result<Option<Vec<f32>>, TapError> {
        self.record(id, ne, values)?;
        Ok(None)
    }
}
