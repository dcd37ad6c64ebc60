//! Writes GGUF version 3, one tensor at a time.

use super::header::{ALIGNMENT_KEY, MAGIC, MAX_TENSOR_NAME, alignment};
use super::table::{TensorInfo, tensor_bytes};
use super::temporary::Temporary;
use super::value::{MAX_STRING, put_string};
use super::{Array, GgufError, Metadata, Value};
use crate::tensor::GgmlType;
use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Collects metadata and tensor declarations, then writes a file tensor by tensor.
///
/// Only the header is held in memory, so a file of 100 GB takes no more than one of its tensors.
///
/// ```
/// use lockstep::gguf::GgufWriter;
/// use lockstep::tensor::GgmlType;
///
/// # let path = std::env::temp_dir().join(format!("lockstep-writer-{}.gguf", std::process::id()));
/// let mut writer = GgufWriter::new();
/// writer.set("general.architecture", "qwen35")?;
/// writer.tensor("output_norm.weight", &[2], GgmlType::F32)?; // ne = {2}
/// writer.write(&path, |_tensor, out| out.write_all(&[0u8; 8]))?;
/// # std::fs::remove_file(&path).ok();
/// # Ok::<(), lockstep::gguf::GgufError>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct GgufWriter {
    metadata: Metadata,
    /// `part` and `offset` stay 0 until the layout is known.
    tensors: Vec<TensorInfo>,
    names: HashSet<String>,
}

impl GgufWriter {
    /// A file without metadata or tensors.
    pub fn new() -> GgufWriter {
        GgufWriter::default()
    }

    /// Adds a metadata key. `general.alignment` is how the alignment of tensor data is chosen: a `u32`,
    /// a power of two from 8 to 2 MiB; 32 without it.
    ///
    /// # Errors
    /// If the key is empty, too long or there already, a string is above the reader's cap of 64 MiB, or
    /// the alignment is refused.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Result<&mut Self, GgufError> {
        let (key, value) = (key.into(), value.into());
        let longest = match &value {
            Value::String(text) => text.len(),
            Value::Array(Array::String(texts)) => texts.iter().map(String::len).max().unwrap_or(0),
            _ => 0,
        } as u64;
        if longest > MAX_STRING {
            return Err(GgufError::StringTooLong {
                what: "string value",
                offset: 0,
                got: longest,
                limit: MAX_STRING,
            });
        }
        if key == ALIGNMENT_KEY {
            let mut only = Metadata::new();
            only.insert(key.as_str(), value.clone())?;
            alignment(&only)?;
        }
        self.metadata.insert(key, value)?;
        Ok(self)
    }

    /// Chooses the alignment of tensor data in bytes: sets `general.alignment`.
    ///
    /// # Errors
    /// As [`GgufWriter::set`].
    pub fn alignment(&mut self, bytes: u32) -> Result<&mut Self, GgufError> {
        self.set(ALIGNMENT_KEY, bytes)
    }

    /// Declares the next tensor, with `ne` in ggml's order (dimension 0 fastest), 1 to 4 long.
    ///
    /// # Errors
    /// If the name is empty, longer than 63 bytes or there already, or the extents do not make a tensor
    /// of this type.
    pub fn tensor(
        &mut self,
        name: impl Into<String>,
        ne: &[u64],
        ty: GgmlType,
    ) -> Result<&mut Self, GgufError> {
        let name = name.into();
        if name.is_empty() {
            return Err(GgufError::EmptyTensorName);
        }
        if name.len() as u64 > MAX_TENSOR_NAME {
            let (got, limit) = (name.len() as u64, MAX_TENSOR_NAME);
            return Err(GgufError::StringTooLong { what: "tensor name", offset: 0, got, limit });
        }
        let n_dims = ne.len() as u32;
        if !(1..=4).contains(&n_dims) {
            return Err(GgufError::DimensionCount { name, got: n_dims });
        }
        let mut extents = [1; 4];
        extents[..ne.len()].copy_from_slice(ne);
        let bytes = tensor_bytes(&name, extents, ty)?;
        if !self.names.insert(name.clone()) {
            return Err(GgufError::DuplicateTensor { name });
        }
        self.tensors.push(TensorInfo { name, ne: extents, n_dims, ty, part: 0, offset: 0, bytes });
        Ok(self)
    }

    /// Bytes of all tensors declared so far, without padding.
    pub fn data_bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes).sum()
    }

    /// Writes the file: calls `data` for each tensor in order of declaration, which writes its bytes.
    ///
    /// The file appears under its name once it is complete; whatever fails, nothing is left behind and a
    /// file that was there stays as it was.
    ///
    /// # Errors
    /// If the system refuses, `data` fails, or it writes more or fewer bytes than declared.
    pub fn write(
        &self,
        path: &Path,
        mut data: impl FnMut(&TensorInfo, &mut dyn Write) -> io::Result<()>,
    ) -> Result<(), GgufError> {
        let (header, tensors) = self.layout()?;
        let temporary =
            Temporary::beside(path).map_err(GgufError::io("create a temporary file beside", path))?;
        let mut out = BufWriter::with_capacity(1 << 20, temporary.file());
        out.write_all(&header).map_err(GgufError::io("write", path))?;
        let mut position = header.len() as u64;
        for tensor in &tensors {
            write_zeros(&mut out, tensor.offset - position).map_err(GgufError::io("write", path))?;
            write_tensor(&mut out, tensor, &mut data)?;
            position = tensor.offset + tensor.bytes;
        }
        // llama.cpp reads the last tensor with its padding.
        let padding = position.next_multiple_of(alignment(&self.metadata)?) - position;
        write_zeros(&mut out, padding).and_then(|()| out.flush()).map_err(GgufError::io("write", path))?;
        drop(out);
        temporary.persist(path).map_err(GgufError::io("move a temporary file to", path))
    }

    /// The file in memory with zeros for all tensors: pages that nobody writes to take no memory.
    ///
    /// # Errors
    /// If the tensors are larger than the address space.
    pub(crate) fn with_zeros(&self) -> Result<Vec<u8>, GgufError> {
        let (header, tensors) = self.layout()?;
        let end = tensors.last().map_or(header.len() as u64, |tensor| tensor.offset + tensor.bytes);
        let mut bytes = vec![0; end.next_multiple_of(alignment(&self.metadata)?) as usize];
        bytes[..header.len()].copy_from_slice(&header);
        Ok(bytes)
    }

    /// The header's bytes, padded, and every tensor with its place in the file.
    fn layout(&self) -> Result<(Vec<u8>, Vec<TensorInfo>), GgufError> {
        let alignment = alignment(&self.metadata)?;
        let mut header = Vec::new();
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&(self.tensors.len() as u64).to_le_bytes());
        header.extend_from_slice(&(self.metadata.len() as u64).to_le_bytes());
        for (key, value) in self.metadata.iter() {
            put_string(key, &mut header);
            value.write(&mut header);
        }
        let mut tensors = self.tensors.clone();
        let mut offset = 0u64; // from the start of the data, which is not known yet
        for tensor in &mut tensors {
            put_string(&tensor.name, &mut header);
            header.extend_from_slice(&tensor.n_dims.to_le_bytes());
            tensor.dims().iter().for_each(|n| header.extend_from_slice(&n.to_le_bytes()));
            header.extend_from_slice(&tensor.ty.id().to_le_bytes());
            header.extend_from_slice(&offset.to_le_bytes());
            tensor.offset = offset;
            offset = offset
                .checked_add(tensor.bytes)
                .and_then(|end| end.checked_next_multiple_of(alignment))
                .filter(|&end| end <= i64::MAX as u64)
                .ok_or_else(|| GgufError::SizeOverflow { name: tensor.name.clone(), ne: tensor.ne })?;
        }
        header.resize(header.len().next_multiple_of(alignment as usize), 0);
        tensors.iter_mut().for_each(|tensor| tensor.offset += header.len() as u64);
        Ok((header, tensors))
    }
}

/// The version that is written.
const VERSION: u32 = 3;

/// Counts what is written for a tensor, and refuses more than `expected` bytes.
struct Counted<'a, W: Write> {
    out: &'a mut W,
    expected: u64,
    got: u64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let got = self.got.saturating_add(bytes.len() as u64);
        if got > self.expected {
            self.got = got;
            return Err(io::Error::other("more bytes than the tensor was declared with"));
        }
        let written = self.out.write(bytes)?;
        self.got += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn write_tensor<W: Write>(
    out: &mut W,
    tensor: &TensorInfo,
    data: &mut impl FnMut(&TensorInfo, &mut dyn Write) -> io::Result<()>,
) -> Result<(), GgufError> {
    let (name, expected) = (&tensor.name, tensor.bytes);
    let mut counted = Counted { out, expected, got: 0 };
    let outcome = data(tensor, &mut counted);
    let got = counted.got;
    if got > expected {
        return Err(GgufError::TensorBytes { name: name.clone(), expected, got });
    }
    outcome.map_err(|source| GgufError::TensorData { name: name.clone(), source })?;
    if got != expected {
        return Err(GgufError::TensorBytes { name: name.clone(), expected, got });
    }
    Ok(())
}

fn write_zeros(out: &mut impl Write, mut count: u64) -> io::Result<()> {
    const ZEROS: [u8; 4096] = [0; 4096];
    while count > 0 {
        let n = count.min(ZEROS.len() as u64);
        out.write_all(&ZEROS[..n as usize])?;
        count -= n;
    }
    Ok(())
}
