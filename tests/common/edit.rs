//! A copy of a model with changes.

use std::path::Path;

use lockstep::gguf::{Array, Gguf, GgufWriter, Value};
use lockstep::model::{FOLD_PREFIX, Model, ModelError};
use lockstep::tensor::GgmlType;

use super::ModelFile;

/// `prism.hadamard.<key>`
pub fn fold_key(key: &str) -> String {
    format!("{FOLD_PREFIX}{key}")
}

/// `qwen35.<key>`
pub fn hparam_key(key: &str) -> String {
    format!("qwen35.{key}")
}

/// The metadata and tensors of a file, to be changed and written again.
#[derive(Clone)]
pub struct Edit {
    metadata: Vec<(String, Value)>,
    tensors: Vec<Stored>,
}

#[derive(Clone)]
struct Stored {
    name: String,
    ne: Vec<u64>,
    ty: GgmlType,
    data: Vec<u8>,
}

impl Edit {
    pub fn of(path: &Path) -> Edit {
        let gguf = Gguf::open(path).unwrap();
        let stored = |name: &str| {
            let tensor = gguf.tensor(name).unwrap();
            Stored {
                name: name.to_owned(),
                ne: tensor.info.dims().to_vec(),
                ty: tensor.info.ty,
                data: tensor.data.to_vec(),
            }
        };
        Edit {
            metadata: gguf.metadata().iter().map(|(key, value)| (key.to_owned(), value.clone())).collect(),
            tensors: gguf.tensors().iter().map(|info| stored(&info.name)).collect(),
        }
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.metadata.iter().map(|(key, _)| key.as_str())
    }

    pub fn value(&self, key: &str) -> &Value {
        &self.metadata.iter().find(|(k, _)| k == key).unwrap_or_else(|| panic!("no key {key}")).1
    }

    /// The strings of a key of the fold contract.
    pub fn names(&self, key: &str) -> Vec<String> {
        match self.value(&fold_key(key)) {
            Value::Array(Array::String(names)) => names.clone(),
            other => panic!("{key} is {}", other.type_name()),
        }
    }

    /// Replaces the value of a key, or adds the key at the end.
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Edit {
        let value = value.into();
        match self.metadata.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value,
            None => self.metadata.push((key.to_owned(), value)),
        }
        self
    }

    /// The same for a key of the fold contract.
    pub fn set_fold(self, key: &str, value: impl Into<Value>) -> Edit {
        self.set(&fold_key(key), value)
    }

    /// The same for a hyperparameter.
    pub fn set_hparam(self, key: &str, value: impl Into<Value>) -> Edit {
        self.set(&hparam_key(key), value)
    }

    pub fn remove(mut self, key: &str) -> Edit {
        let before = self.metadata.len();
        self.metadata.retain(|(k, _)| k != key);
        assert_eq!(self.metadata.len() + 1, before, "no key {key}");
        self
    }

    /// Removes every key of the fold contract.
    pub fn remove_fold(mut self) -> Edit {
        self.metadata.retain(|(key, _)| !key.starts_with(FOLD_PREFIX));
        self
    }

    pub fn drop_tensor(mut self, name: &str) -> Edit {
        let before = self.tensors.len();
        self.tensors.retain(|tensor| tensor.name != name);
        assert_eq!(self.tensors.len() + 1, before, "no tensor {name}");
        self
    }

    /// Replaces a tensor, or adds it at the end.
    pub fn tensor(mut self, name: &str, ne: &[u64], ty: GgmlType, data: Vec<u8>) -> Edit {
        let new = Stored { name: name.to_owned(), ne: ne.to_vec(), ty, data };
        match self.tensors.iter_mut().find(|tensor| tensor.name == name) {
            Some(old) => *old = new,
            None => self.tensors.push(new),
        }
        self
    }

    /// Changes the bytes of a tensor.
    pub fn change(mut self, name: &str, change: impl FnOnce(&mut [u8])) -> Edit {
        let tensor = self.tensors.iter_mut().find(|tensor| tensor.name == name);
        change(&mut tensor.unwrap_or_else(|| panic!("no tensor {name}")).data);
        self
    }

    /// Puts the contents of one tensor under another name.
    pub fn copy_tensor(self, from: &str, to: &str) -> Edit {
        let Stored { ne, ty, data, .. } =
            self.tensors.iter().find(|tensor| tensor.name == from).unwrap().clone();
        self.tensor(to, &ne, ty, data)
    }

    /// A tensor of zeros, in place of one of that name or at the end.
    pub fn zeros(self, name: &str, ne: &[u64], ty: GgmlType) -> Edit {
        let bytes = ty.row_bytes(ne.iter().product()).unwrap();
        self.tensor(name, ne, ty, vec![0; bytes as usize])
    }

    pub fn write(&self) -> ModelFile {
        let file = ModelFile::new();
        let mut writer = GgufWriter::new();
        for (key, value) in &self.metadata {
            writer.set(key.as_str(), value.clone()).unwrap();
        }
        for tensor in &self.tensors {
            writer.tensor(tensor.name.as_str(), &tensor.ne, tensor.ty).unwrap();
        }
        let mut tensors = self.tensors.iter();
        writer.write(&file.path, |_, out| out.write_all(&tensors.next().unwrap().data)).unwrap();
        file
    }

    /// Writes the file and opens it.
    pub fn open(&self) -> Result<Model, ModelError> {
        Model::open(&self.write().path)
    }
}
