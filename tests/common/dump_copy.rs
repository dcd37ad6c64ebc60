//! Copies of committed dumps, to be changed and checked.

use std::collections::HashSet;
use std::path::PathBuf;

use lockstep::dump::{Dump, DumpWriter, Manifest, Node};
use lockstep::tensor::GgmlType;
use tempfile::TempDir;

use super::{Outcome, Reference, check_files};

/// An entry of a dump.
#[derive(Clone)]
pub struct Payload {
    pub entry: String,
    pub bytes: Vec<u8>,
    pub ty: GgmlType,
    pub ne: [u64; 4],
}

/// A dump in memory, to be changed and written again.
#[derive(Clone)]
pub struct Copy {
    pub manifest: Manifest,
    pub payloads: Vec<Payload>,
}

impl Copy {
    pub fn of(reference: Reference) -> Copy {
        Copy::of_dump(&reference.open())
    }

    pub fn of_dump(dump: &Dump) -> Copy {
        let mut seen = HashSet::new();
        let mut payloads = Vec::new();
        let mut add = |entry: &Option<String>, bytes: Option<&[u8]>, ty, ne| {
            if let (Some(entry), Some(bytes)) = (entry, bytes)
                && seen.insert(entry.clone())
            {
                payloads.push(Payload { entry: entry.clone(), bytes: bytes.to_vec(), ty, ne });
            }
        };
        for leaf in dump.leaves() {
            add(&leaf.entry, dump.leaf_bytes(leaf).unwrap().as_deref(), leaf.ty, leaf.ne);
        }
        for node in dump.nodes().iter().filter(|node| node.entry.is_some()) {
            add(&node.entry, dump.bytes(node).unwrap().as_deref(), node.ty, node.ne);
        }
        Copy { manifest: dump.manifest().clone(), payloads }
    }

    /// A step's node by name, its first occurrence.
    pub fn node(&mut self, step: u32, name: &str) -> &mut Node {
        let is_it = |node: &&mut Node| node.step == step && node.name == name && node.occurrence == 0;
        self.manifest.nodes.iter_mut().find(is_it).unwrap_or_else(|| panic!("no {name} at step {step}"))
    }

    /// Gives a node an entry that no other node uses, and returns it.
    pub fn own_payload(&mut self, step: u32, name: &str) -> &mut Payload {
        let node = self.node(step, name);
        let (ty, ne) = (node.ty, node.ne);
        let shared = node.entry.clone().unwrap_or_else(|| panic!("{name} is not stored"));
        let users = self.manifest.nodes.iter().filter(|node| node.entry.as_ref() == Some(&shared)).count();
        let at = self.payloads.iter().position(|payload| payload.entry == shared).unwrap();
        if users == 1 {
            return &mut self.payloads[at];
        }
        let own = format!("{shared}.own");
        self.node(step, name).entry = Some(own.clone());
        // An entry has the shape of the first node that names it.
        let first = self.manifest.nodes.iter().find(|node| node.entry.as_ref() == Some(&shared)).unwrap();
        self.payloads[at].ne = first.ne;
        let bytes = self.payloads[at].bytes.clone();
        self.payloads.push(Payload { entry: own, bytes, ty, ne });
        self.payloads.last_mut().unwrap()
    }

    /// The values of a node that has an entry.
    pub fn values(&mut self, step: u32, name: &str) -> Vec<f32> {
        let entry = self.node(step, name).entry.clone();
        let payload = self.payloads.iter().find(|payload| Some(&payload.entry) == entry.as_ref());
        floats(&payload.unwrap_or_else(|| panic!("{name} is not stored")).bytes)
    }

    /// Changes the values of a step's node; those of a contiguous view lie in the payload of its root.
    pub fn change(&mut self, step: u32, name: &str, change: impl FnOnce(&mut [f32])) {
        let node = self.node(step, name).clone();
        let (root, offset) = match &node.view_of {
            Some(view) if node.entry.is_none() => (view.name.clone(), view.offset as usize),
            _ => (name.to_owned(), 0),
        };
        assert!(node.contiguous, "{name} does not lie in one piece");
        let payload = self.own_payload(step, &root);
        let end = offset + node.ne.iter().product::<u64>() as usize * size_of::<f32>();
        let mut values = floats(&payload.bytes[offset..end]);
        change(&mut values);
        payload.bytes[offset..end].copy_from_slice(&bytes(&values));
    }

    /// Changes a token id, in the ubatch and in what the graph read.
    pub fn set_token(&mut self, step: u32, token: usize, id: i32) {
        self.manifest.run.ubatches[step as usize].tokens[token] = id;
        let is_it = |payload: &&mut Payload| payload.entry == format!("{step}/inp_tokens");
        let payload = self.payloads.iter_mut().find(is_it).expect("the dump holds its tokens");
        payload.bytes[token * size_of::<i32>()..][..size_of::<i32>()].copy_from_slice(&id.to_le_bytes());
    }

    /// Removes entries that no tensor names any more, as a dumper would not have written them.
    pub fn drop_unused(&mut self) {
        let nodes = self.manifest.nodes.iter().filter_map(|node| node.entry.as_ref());
        let leaves = self.manifest.leaves.iter().filter_map(|leaf| leaf.entry.as_ref());
        let used: HashSet<&String> = nodes.chain(leaves).collect();
        self.payloads.retain(|payload| used.contains(&payload.entry));
    }

    /// Writes it; the file lives as long as what is returned.
    pub fn write(&self) -> Written {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy.npz");
        let mut writer = DumpWriter::create(&path).unwrap();
        for Payload { entry, bytes, ty, ne } in &self.payloads {
            writer.add_payload(entry, bytes, *ty, *ne).unwrap();
        }
        writer.finish(&self.manifest).unwrap();
        Written { _folder: folder, path }
    }

    /// Writes it and runs `lockstep check` with the model of `reference`.
    pub fn check(&self, reference: Reference) -> Outcome {
        check_files(&reference.built().path, &self.write().path)
    }
}

/// A file in a folder of its own.
pub struct Written {
    _folder: TempDir,
    pub path: PathBuf,
}

/// The values of a payload.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect()
}

/// The bytes of values.
pub fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
