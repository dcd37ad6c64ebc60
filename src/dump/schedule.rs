//! Checks that the ubatches of a run and the steps of its nodes and leaves belong together.

#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use super::error::Defect;
use super::manifest::{LeafKind, Manifest, Ubatch};

/// Checks ubatches, steps and leaf kinds; returns which nodes each step has.
pub(super) fn check(manifest: &Manifest) -> Result<Vec<Range<usize>>, Defect> {
    let ubatches = &manifest.run.ubatches;
    for (expected, ubatch) in ubatches.iter().enumerate() {
        if ubatch.step as usize != expected {
            return Err(Defect::UbatchStep { expected, got: ubatch.step });
        }
        check_lengths(ubatch)?;
    }
    let n_steps = ubatches.len();
    for leaf in &manifest.leaves {
        if leaf.step.is_some_and(|step| step as usize >= n_steps) {
            return Err(Defect::NoUbatch { item: leaf.label(), n_steps });
        }
        let detail = match (leaf.kind, leaf.step, &leaf.entry) {
            (LeafKind::Input, None, _) => "an input needs a step",
            (LeafKind::Weight | LeafKind::Cache, Some(_), _) => "a weight or a cache has no step",
            (LeafKind::Weight | LeafKind::Cache, _, Some(_)) => "a weight or a cache has no entry",
            (LeafKind::Input, _, None) if !leaf.ne.contains(&0) => "an input needs an entry",
            _ => continue,
        };
        return Err(Defect::LeafKind { item: leaf.label(), detail });
    }
    steps(manifest, n_steps)
}

fn check_lengths(ubatch: &Ubatch) -> Result<(), Defect> {
    let tokens = ubatch.tokens.len();
    let lists = [
        ("positions", ubatch.positions.len()),
        ("seq_ids", ubatch.seq_ids.len()),
        ("outputs", ubatch.outputs.len()),
    ];
    match lists.into_iter().find(|&(_, got)| got != tokens) {
        Some((field, got)) => Err(Defect::UbatchLength { step: ubatch.step, field, tokens, got }),
        None => Ok(()),
    }
}

fn steps(manifest: &Manifest, n_steps: usize) -> Result<Vec<Range<usize>>, Defect> {
    let mut steps: Vec<Range<usize>> = Vec::with_capacity(n_steps);
    let mut previous = 0;
    for (i, node) in manifest.nodes.iter().enumerate() {
        if node.step < previous {
            return Err(Defect::StepOrder { item: node.label(), previous });
        }
        previous = node.step;
        let step = node.step as usize;
        if step >= n_steps {
            return Err(Defect::NoUbatch { item: node.label(), n_steps });
        }
        if step > steps.len() {
            return Err(Defect::EmptyStep { step: steps.len() as u32 });
        }
        match steps.get_mut(step) {
            Some(range) => range.end = i + 1,
            None => steps.push(i..i + 1),
        }
    }
    if steps.len() < n_steps {
        return Err(Defect::EmptyStep { step: steps.len() as u32 });
    }
    Ok(steps)
}
