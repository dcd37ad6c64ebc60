//! A small valid dump for tests: two steps, 13 + 2 nodes, every way in which a node can have values.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use crate::tensor::GgmlType::{self, BF16, F32, I32};

/// An entry's name, bytes, type and extents.
pub(crate) type Payload = (&'static str, Vec<u8>, GgmlType, [u64; 4]);

/// The 12 values of `embd`: `{4, 3}`, 0 to 11.
pub(crate) fn embd() -> Vec<f32> {
    (0..12u8).map(f32::from).collect()
}

pub(crate) fn payloads() -> Vec<Payload> {
    let floats = |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let transposed: Vec<f32> = (0..12).map(|i| embd()[i % 3 * 4 + i / 3]).collect();
    vec![
        ("0/inp_tokens", [1i32, 2, 3].iter().flat_map(|t| t.to_le_bytes()).collect(), I32, [3, 1, 1, 1]),
        ("0/embd", floats(&embd()), F32, [4, 3, 1, 1]),
        ("0/q", floats(&[2.0, 3.0, 6.0, 7.0, 10.0, 11.0]), F32, [2, 3, 1, 1]),
        ("0/new_state", floats(&[0.5; 12]), F32, [2, 2, 3, 1]),
        ("0/embd_t", floats(&transposed), F32, [3, 4, 1, 1]),
        ("0/set", floats(&[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]), F32, [2, 3, 1, 1]),
        ("1/inp_tokens", 4i32.to_le_bytes().to_vec(), I32, [1, 1, 1, 1]),
        ("1/embd", floats(&[1.0, 2.0, 3.0, 4.0]), F32, [4, 1, 1, 1]),
        ("1/h", vec![0x80, 0x3f, 0, 0x40, 0x40, 0x40, 0x80, 0x40], BF16, [4, 1, 1, 1]),
    ]
}

pub(crate) fn manifest() -> Manifest {
    let embd = || node("embd", "GET_ROWS", [4, 3, 1, 1]).entry("0/embd");
    let nodes = vec![
        embd().leaf(0, "token_embd.weight").leaf(1, "inp_tokens"),
        node("embd (view)", "VIEW", [2, 3, 1, 1]).nb([4, 16, 48, 48]).view(0, "embd", 8),
        node("q", "CONT", [2, 3, 1, 1]).node(1, "embd (view)").entry("0/q"),
        node("q", "RESHAPE", [3, 2, 1, 1]).occurrence(1).view(2, "q", 0),
        node("node_4", "GATED_DELTA_NET", [12, 1, 1, 1]).node(0, "embd").entry("0/new_state"),
        node("new_state", "RESHAPE", [2, 2, 3, 1]).view(4, "node_4", 0).entry("0/new_state"),
        node("gate", "UNARY", [2, 3, 1, 1]).variant("SILU").node(2, "q").entry("0/q"),
        node("cache_k_l0 (view)", "VIEW", [4, 3, 1, 1]).view_leaf(2, "cache_k_l0", 16),
        node("k_store", "CPY", [4, 3, 1, 1]).node(0, "embd").node(7, "cache_k_l0 (view)").memory_of_leaf(
            2,
            "cache_k_l0",
            16,
        ),
        node("embd_t", "PERMUTE", [3, 4, 1, 1]).nb([16, 4, 48, 48]).view(0, "embd", 0).entry("0/embd_t"),
        node("set", "SET", [2, 3, 1, 1])
            .node(2, "q")
            .node(1, "embd (view)")
            .memory_of(2, "q", 0)
            .entry("0/set"),
        node("out", "VIEW", [2, 2, 1, 1]).view_in(10, "set", 2, "q", 8),
        node("stale", "VIEW", [2, 2, 1, 1]).view(2, "q", 8),
        node("embd", "GET_ROWS", [4, 1, 1, 1])
            .leaf(0, "token_embd.weight")
            .leaf(3, "inp_tokens")
            .entry("1/embd"),
        node("h", "CPY", [4, 1, 1, 1]).ty(BF16).node(13, "embd").entry("1/h"),
    ];
    let nodes = nodes.into_iter().zip(0..).map(|(mut node, id)| {
        node.0.id = id;
        node.0.step = u32::from(id >= 13);
        node.0
    });
    Manifest {
        producer: Producer {
            name: "test".into(),
            build: 0,
            commit: "none".into(),
            backend: "CPU".into(),
            system_info: String::new(),
            compiler: "rustc".into(),
            libc: "none".into(),
            dumper: "test 1".into(),
            changes: None,
        },
        model: Model {
            file: "m.gguf".into(),
            sha256: "00".repeat(32),
            architecture: "qwen35".into(),
            metadata: [("general.name".to_owned(), "mini".to_owned())].into(),
        },
        run: run(),
        capture: Capture { unchanged: true, compared_logits: 12, first_difference: None },
        leaves: leaves(),
        nodes: nodes.collect(),
    }
}

fn run() -> Run {
    let ubatch = |step, tokens: &[i32], first| Ubatch {
        step,
        tokens: tokens.to_vec(),
        positions: (first..).take(tokens.len()).collect(),
        seq_ids: vec![vec![0]; tokens.len()],
        outputs: vec![1; tokens.len()],
        before: Vec::new(),
    };
    Run {
        ubatches: vec![ubatch(0, &[1, 2, 3], 0), ubatch(1, &[4], 3)],
        schedule: vec![3, 1],
        script: None,
        generated: 0,
        prompt: None,
        n_ctx: 8,
        n_seq_max: 1,
        kv_unified: None,
        n_rs_seq: 0,
        n_batch: 8,
        n_ubatch: 8,
        n_threads: 1,
        flash_attn: false,
        type_k: "f32".into(),
        type_v: "f32".into(),
        repack: Some(false),
        reference_kernels: false,
        fused_gdn: None,
        filters: vec!["^(?!k_store|stale)".into()],
        until: None,
        named_only: false,
        views: false,
        selected: vec![[0, 7], [9, 11], [13, 14]],
    }
}

fn leaves() -> Vec<Leaf> {
    let leaf = |id, name: &str, kind, step, ty: GgmlType, ne, entry: Option<&str>| Leaf {
        id,
        step,
        name: name.into(),
        kind,
        ty,
        ne,
        nb: packed_nb(ty, ne),
        entry: entry.map(str::to_owned),
    };
    vec![
        leaf(0, "token_embd.weight", LeafKind::Weight, None, F32, [4, 8, 1, 1], None),
        leaf(1, "inp_tokens", LeafKind::Input, Some(0), I32, [3, 1, 1, 1], Some("0/inp_tokens")),
        leaf(2, "cache_k_l0", LeafKind::Cache, None, F32, [4, 8, 1, 1], None),
        leaf(3, "inp_tokens", LeafKind::Input, Some(1), I32, [1, 1, 1, 1], Some("1/inp_tokens")),
    ]
}

fn packed_nb(ty: GgmlType, ne: [u64; 4]) -> [u64; 4] {
    crate::tensor::Layout::packed(ne, ty.block_bytes() as u64).unwrap().nb
}

/// Builds a node; `sources` and `view_of` are added by the methods.
struct Build(Node);

fn node(name: &str, op: &str, ne: [u64; 4]) -> Build {
    Build(Node {
        id: 0,
        step: 0,
        name: name.into(),
        occurrence: 0,
        op: op.into(),
        variant: None,
        params: vec![],
        ty: F32,
        ne,
        nb: packed_nb(F32, ne),
        contiguous: true,
        sources: vec![],
        view_of: None,
        entry: None,
    })
}

impl Build {
    fn source(mut self, from: Origin, name: &str) -> Build {
        self.0.sources.push(Some(Source { from, name: name.into() }));
        self
    }
    fn root(mut self, root: Origin, name: &str, offset: u64) -> Build {
        self.0.view_of = Some(ViewOf { root, name: name.into(), offset });
        self
    }
    fn node(self, id: u32, name: &str) -> Build {
        self.source(Origin::Node(id), name)
    }
    fn leaf(self, id: u32, name: &str) -> Build {
        self.source(Origin::Leaf(id), name)
    }
    fn memory_of(self, id: u32, name: &str, offset: u64) -> Build {
        self.root(Origin::Node(id), name, offset)
    }
    fn memory_of_leaf(self, id: u32, name: &str, offset: u64) -> Build {
        self.root(Origin::Leaf(id), name, offset)
    }
    fn view(self, id: u32, name: &str, offset: u64) -> Build {
        self.node(id, name).memory_of(id, name, offset)
    }
    fn view_in(self, id: u32, name: &str, root: u32, root_name: &str, offset: u64) -> Build {
        self.node(id, name).memory_of(root, root_name, offset)
    }
    fn view_leaf(self, id: u32, name: &str, offset: u64) -> Build {
        self.leaf(id, name).memory_of_leaf(id, name, offset)
    }
    fn entry(mut self, entry: &str) -> Build {
        self.0.entry = Some(entry.into());
        self
    }
    fn occurrence(mut self, occurrence: u32) -> Build {
        self.0.occurrence = occurrence;
        self
    }
    fn variant(mut self, variant: &str) -> Build {
        self.0.variant = Some(variant.into());
        self
    }
    fn ty(mut self, ty: GgmlType) -> Build {
        self.0.ty = ty;
        self.0.nb = packed_nb(ty, self.0.ne);
        self
    }
    fn nb(mut self, nb: [u64; 4]) -> Build {
        self.0.nb = nb;
        self.0.contiguous = false;
        self
    }
}

/// Writes the payloads and whatever manifest into a folder that lives as long as what is returned.
pub(crate) fn write(payloads: &[Payload], finish: impl FnOnce(DumpWriter)) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.npz");
    let mut writer = DumpWriter::create(&path).unwrap();
    for (entry, bytes, ty, ne) in payloads {
        writer.add_payload(entry, bytes, *ty, *ne).unwrap();
    }
    finish(writer);
    (folder, path)
}

/// The sample, written.
pub(crate) fn sample() -> (TempDir, PathBuf) {
    write(&payloads(), |writer| writer.finish(&manifest()).unwrap())
}

/// Opens a file and reads everything in it.
pub(crate) fn open_all(path: &Path) -> Result<Dump, DumpError> {
    let dump = Dump::open(path)?;
    dump.verify()?;
    for node in dump.nodes() {
        dump.bytes(node)?;
    }
    Ok(dump)
}
