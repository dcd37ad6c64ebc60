//! Opening a dump and looking its tensors up.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::archive::{self, Archive};
use super::entries::{self, HeaderBytes};
use super::error::{Defect, DumpError};
use super::graph::{self, Graph};
use super::manifest::{Leaf, Manifest, Node, Origin};
use super::{MANIFEST, parse, schedule, selection, sequences};
use crate::tensor::TensorId;

/// A dump, mapped into memory and checked.
pub struct Dump {
    path: PathBuf,
    pub(super) manifest: Manifest,
    steps: Vec<Range<usize>>,
    /// For each node, whether it was asked for.
    selected: Vec<bool>,
    pub(super) graph: Graph,
    pub(super) archive: Archive,
    pub(super) headers: HeaderBytes,
    /// For each node, whether its stored view was found to agree with its root.
    pub(super) agreed: Vec<AtomicBool>,
}

impl Dump {
    /// Opens a dump and checks its container, its manifest, the header of every payload, and the inputs that hold
    /// token ids and positions.
    ///
    /// # Errors
    /// [`DumpError::Io`] if the file cannot be read, [`DumpError::Refused`] if it is not a valid dump.
    pub fn open(path: &Path) -> Result<Dump, DumpError> {
        let map = archive::map(path).map_err(|source| DumpError::Io { path: path.to_owned(), source })?;
        let archive = Archive::new(map).map_err(|defect| refused(path, defect))?;
        Dump::check(path, archive).map_err(|defect| refused(path, defect))
    }

    fn check(path: &Path, archive: Archive) -> Result<Dump, Defect> {
        let entry = archive.find(MANIFEST).ok_or(Defect::NoManifest)?;
        let manifest = parse::manifest(archive.bytes(entry)?)?;
        let graph = graph::check(&manifest)?;
        let steps = schedule::check(&manifest)?;
        sequences::check(&manifest.run)?;
        let selected = selection::check(&manifest, &graph)?;
        let headers = entries::check(&manifest, &archive)?;
        let agreed = manifest.nodes.iter().map(|_| AtomicBool::new(false)).collect();
        let dump = Dump { path: path.to_owned(), manifest, steps, selected, graph, archive, headers, agreed };
        dump.check_inputs()?;
        Ok(dump)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the manifest says.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// All nodes in evaluation order, captured or not.
    pub fn nodes(&self) -> &[Node] {
        &self.manifest.nodes
    }

    /// Weights, caches and inputs.
    pub fn leaves(&self) -> &[Leaf] {
        &self.manifest.leaves
    }

    /// How many times the graph was evaluated.
    pub fn n_steps(&self) -> u32 {
        self.steps.len() as u32
    }

    /// The nodes of one step in evaluation order; none if there is no such step.
    pub fn step_nodes(&self, step: u32) -> &[Node] {
        let range = self.steps.get(step as usize).cloned().unwrap_or_default();
        self.nodes().get(range).unwrap_or_default()
    }

    /// The node with this identity.
    pub fn find(&self, id: &TensorId) -> Option<&Node> {
        self.graph.index.get(id).and_then(|&i| self.nodes().get(i))
    }

    /// The node with this number ([`Origin::Node`]).
    pub fn node(&self, id: u32) -> Option<&Node> {
        self.nodes().get(id as usize)
    }

    /// The leaf with this number ([`Origin::Leaf`]).
    pub fn leaf(&self, id: u32) -> Option<&Leaf> {
        self.leaves().get(id as usize)
    }

    /// Whether a node was asked for: it passed the run's filters and has elements. Its values are then in the dump,
    /// unless it is a view of a leaf or a quantised tensor with gaps.
    pub fn is_selected(&self, node: &Node) -> bool {
        self.selected.get(node.id as usize).copied().unwrap_or(false)
    }

    /// The tensor whose values a node shows: through pure views to the operator's result or the leaf at
    /// the end. The node itself if it is not a pure view.
    pub fn computed_by(&self, node: &Node) -> Origin {
        let base = self.graph.bases.get(node.id as usize).and_then(Option::as_ref);
        base.map_or(Origin::Node(node.id), |base| base.origin)
    }

    /// Whether it tells what its tensors were computed from, as a dump of llama.cpp does.
    pub fn has_graph(&self) -> bool {
        self.nodes().iter().any(|node| !node.sources.is_empty())
    }

    /// The operator that computed a node's values, through pure views: `GATED_DELTA_NET` for a VIEW of its
    /// result. The node's own operator for views of leaves.
    pub fn root_op<'a>(&'a self, node: &'a Node) -> &'a str {
        match self.computed_by(node) {
            Origin::Node(id) => self.node(id).map_or(&node.op, |computed| &computed.op),
            Origin::Leaf(_) => &node.op,
        }
    }
}

/// The error for a file that is not a valid dump.
pub(super) fn refused(path: &Path, defect: Defect) -> DumpError {
    DumpError::Refused { path: path.to_owned(), defect: Box::new(defect) }
}
