//! Checks that a dump holds what it was asked to hold.
//!
//! Filters are ECMAScript expressions, which only the dumper evaluates; it lists the nodes they selected. Without that
//! list a tensor whose payload was lost would look like one that a filter left out.

#![deny(clippy::indexing_slicing)]

use super::error::Defect;
use super::graph::Graph;
use super::manifest::{Manifest, Node, Origin};

/// Runs of `true`, as first and last index of each: the form of `run.selected`.
pub fn runs(selected: impl IntoIterator<Item = bool>) -> Vec<[u32; 2]> {
    let mut runs: Vec<[u32; 2]> = Vec::new();
    for (id, _) in (0..).zip(selected).filter(|&(_, selected)| selected) {
        match runs.last_mut() {
            Some([_, last]) if *last + 1 == id => *last = id,
            _ => runs.push([id, id]),
        }
    }
    runs
}

/// Checks the list of selected nodes and that each of them has values; returns which are selected.
pub(super) fn check(manifest: &Manifest, graph: &Graph) -> Result<Vec<bool>, Defect> {
    let selected = expand(manifest)?;
    let run = &manifest.run;
    for (node, &selected) in manifest.nodes.iter().zip(&selected) {
        let eligible = !node.ne.contains(&0) && (node.is_named() || !run.named_only);
        if (selected && !eligible) || (!selected && eligible && run.filters.is_empty()) {
            return Err(Defect::SelectedWrongly { item: node.label(), expected: eligible });
        }
        if selected && !graph.has_values(manifest, node) && !may_lack_values(node) {
            return Err(Defect::NoValues { item: node.label() });
        }
    }
    Ok(selected)
}

/// One flag per node.
fn expand(manifest: &Manifest) -> Result<Vec<bool>, Defect> {
    let mut selected = vec![false; manifest.nodes.len()];
    let mut least = 0; // runs have gaps between them
    for &[first, last] in &manifest.run.selected {
        match selected.get_mut(first as usize..(last as usize).saturating_add(1)) {
            Some(run) if !run.is_empty() && first as usize >= least => run.fill(true),
            _ => return Err(Defect::SelectedRun { run: [first, last], least, n_nodes: selected.len() }),
        }
        least = (last as usize).saturating_add(2);
    }
    Ok(selected)
}

/// The two kinds of node that the format stores no payload for.
fn may_lack_values(node: &Node) -> bool {
    let of_leaf = node.view_of.as_ref().is_some_and(|view| matches!(view.root, Origin::Leaf(_)));
    (node.is_pure_view() && of_leaf) || (node.ty.block_elements() > 1 && !node.contiguous)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_neighbours_are_one_range() {
        assert_eq!(runs([true, true, false, true, false, false, true]), [[0, 1], [3, 3], [6, 6]]);
        assert_eq!(runs([]), [[0; 2]; 0]);
    }
}
