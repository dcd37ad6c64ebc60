//! A model file, mapped and validated.
#![deny(clippy::indexing_slicing)]

use super::id42::Census;
use super::part::Part;
use super::table::{TensorInfo, validate};
use super::{GgufError, Metadata, split};
use std::collections::HashMap;
use std::path::Path;

/// One model: a GGUF file, or all parts of a split one, mapped into memory.
///
/// Whoever has a `Gguf` has a validated one: every tensor's bytes lie in the file, aligned, in whole
/// blocks, and in no other tensor.
#[derive(Debug)]
pub struct Gguf {
    parts: Vec<Part>,
    opened: usize,
    version: u32,
    alignment: u64,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    index: HashMap<String, usize>,
    notes: Vec<String>,
}

/// A tensor with its bytes, as they lie in the file.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Its line in the table.
    pub info: &'a TensorInfo,
    /// `info.bytes` bytes: packed rows, dimension 0 fastest. They start at a multiple of 8 in memory.
    pub data: &'a [u8],
}

impl Gguf {
    /// Opens a model. Of a split one, any part will do; the others are found beside it.
    ///
    /// # Errors
    /// If a file cannot be read, or anything in the header, the metadata or the tensor table is not as
    /// the format asks: see [`GgufError`].
    pub fn open(path: &Path) -> Result<Gguf, GgufError> {
        Gguf::assemble(Part::open(path)?)
    }

    /// Opens a model that is in memory: the entry point of `fuzz/fuzz_targets/gguf.rs`. A part of a split
    /// model is refused, and tensor data is only as aligned as the vector.
    ///
    /// # Errors
    /// As [`Gguf::open`].
    #[doc(hidden)]
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Gguf, GgufError> {
        Gguf::assemble(Part::from_bytes(Path::new("bytes"), bytes)?)
    }

    fn assemble(opened: Part) -> Result<Gguf, GgufError> {
        let path = opened.path.clone();
        let mut parts = split::open_parts(opened)?;
        let opened = parts.iter().position(|part| part.path == path).unwrap_or(0);

        let mut census = Census::new();
        for part in &parts {
            census.add(&part.header, part.file_bytes()).map_err(|e| e.in_file(&part.path))?;
        }
        let (id42, note) = census.decide();

        let mut tensors: Vec<TensorInfo> = Vec::new();
        let mut index = HashMap::new();
        for (i, part) in parts.iter().enumerate() {
            let table =
                validate(&part.header, part.file_bytes(), i, id42).map_err(|e| e.in_file(&part.path))?;
            for tensor in table {
                if index.insert(tensor.name.clone(), tensors.len()).is_some() {
                    return Err(GgufError::DuplicateTensor { name: tensor.name }.in_file(&part.path));
                }
                tensors.push(tensor);
            }
        }

        let split = parts.len() > 1;
        let first = parts.first_mut().expect("a model has at least the part that was opened");
        let mut metadata = std::mem::take(&mut first.header.metadata);
        if split {
            metadata.retain(|key| ![split::NO_KEY, split::COUNT_KEY, split::TENSORS_KEY].contains(&key));
        }
        let (version, alignment) = (first.header.version, first.header.alignment);
        let notes = note.into_iter().collect();
        Ok(Gguf { parts, opened, version, alignment, metadata, tensors, index, notes })
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        self.parts.get(self.opened).map_or(Path::new(""), |part| &part.path)
    }

    /// Every file of the model, in order of part.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }

    /// GGUF version of the first part, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Alignment of tensor data in the first part, in bytes.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Length of all files together.
    pub fn file_bytes(&self) -> u64 {
        self.parts.iter().map(Part::file_bytes).sum()
    }

    /// The metadata of the model: that of the first part, without the `split.*` keys if there are more.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Every tensor, in the order of the files.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// A tensor by name.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        let info = self.tensors.get(*self.index.get(name)?)?;
        let (start, length) = (usize::try_from(info.offset).ok()?, usize::try_from(info.bytes).ok()?);
        let data = self.parts.get(info.part)?.bytes().get(start..)?.get(..length)?;
        Some(Tensor { info, data })
    }

    /// What a reader of the file should know, a sentence each: for example that type id 42 was read as
    /// `pq2_0`. Most files have none.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}
