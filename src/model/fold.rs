//! The Hadamard fold contract: `prism.hadamard.*` metadata, read strictly.
//!
//! A listed weight is stored as `W diag(s) H`; its activation must be transformed in front of the matmul. A file with
//! any key of the contract but no `version` is refused: a reader that ignores the rest runs the model untransformed, and
//! the output is fluent nonsense.
//!
//! | key | type | rule |
//! |---|---|---|
//! | `version` | u32 | 1 |
//! | `block_size` | u32 | a power of two, at least 2 |
//! | `transform` | str | `normalized-sylvester-walsh-hadamard` |
//! | `axis` | str | `input-last-dimension` (dimension 0 in ggml) |
//! | `sign_mode` | str | `identity` or `explicit` |
//! | `sign_widths` | i32[] | explicit only: positive multiples of `block_size`, no repeats |
//! | `sign_values` | i32[] | explicit only: 1 or -1, as many as the widths' sum, in their order |
//! | `weight_names` | str[] | not empty, unique, each on a path that knows the transform |
//! | `inverse_weight_names` | str[] | optional: only `token_embd.weight`, and not in `weight_names` |
//! | `gdn_v_grouped` | bool | optional: `ssm_out` is stored with grouped v heads |
//!
//! Source: the loader of the PrismML fork; one vector of signs per input width, shared by all layers.

use std::collections::{BTreeMap, HashSet};

use thiserror::Error;

use super::{FoldOrder, HeadPermutation, Hparams, ModelError, Transform, tensors};
use crate::gguf::Gguf;

/// The prefix of every key of the contract.
pub const PREFIX: &str = "prism.hadamard.";

const TRANSFORM: &str = "normalized-sylvester-walsh-hadamard";
const AXIS: &str = "input-last-dimension";
const KEYS: [&str; 10] = [
    "version",
    "block_size",
    "transform",
    "axis",
    "sign_mode",
    "sign_widths",
    "sign_values",
    "weight_names",
    "inverse_weight_names",
    "gdn_v_grouped",
];
/// Weights of a layer whose matmul goes through the transform (the others of the fork's list do not occur in qwen35).
const FOLDABLE: [&str; 9] =
    ["attn_q", "attn_k", "attn_v", "attn_qkv", "attn_gate", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
const SSM_OUT: &str = "ssm_out";

/// Why a fold contract was refused.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FoldError {
    /// Keys of the contract without a version.
    #[error(
        "metadata key `{key}` without `prism.hadamard.version`: without it the model would run untransformed; refused"
    )]
    NoVersion {
        /// The key that was found.
        key: String,
    },
    /// A key that the contract does not have, or that an identity file must not have.
    #[error(
        "unexpected metadata key `{key}`: this version of the contract does not know it; refused rather than ignored"
    )]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// A value that the contract does not allow.
    #[error("prism.hadamard.{key} = {got}, expected {expected}")]
    Value {
        /// The key behind the prefix.
        key: &'static str,
        /// Its value.
        got: String,
        /// What is allowed.
        expected: String,
    },
    /// A width in `sign_widths` is given twice.
    #[error("prism.hadamard.sign_widths names width {width} twice: which signs are meant is unknown")]
    RepeatedWidth {
        /// The width.
        width: i32,
    },
    /// A name in a list of weights is given twice.
    #[error("prism.hadamard.{key} names `{name}` twice")]
    DuplicateName {
        /// Which list.
        key: &'static str,
        /// The name.
        name: String,
    },
    /// A name that no matmul with a transform reads.
    #[error("prism.hadamard.{key} names `{name}`, which is not read through a transform in qwen35")]
    NotFoldable {
        /// Which list.
        key: &'static str,
        /// The name.
        name: String,
    },
    /// A listed weight is not in the file.
    #[error("prism.hadamard.{key} names `{name}`, which is not in the file")]
    MissingWeight {
        /// Which list.
        key: &'static str,
        /// The name.
        name: String,
    },
    /// The input width of a listed weight is not whole blocks.
    #[error("`{name}` has input width {width}, which is not a multiple of block_size {block}")]
    Block {
        /// The weight.
        name: String,
        /// Its input width.
        width: u64,
        /// The block size.
        block: u64,
    },
    /// There are no signs for the input width of a listed weight.
    #[error("`{name}` has input width {width}, for which sign_widths {have:?} has no signs")]
    NoSigns {
        /// The weight.
        name: String,
        /// Its input width.
        width: u64,
        /// The widths that have signs.
        have: Vec<u64>,
    },
    /// The output head is tied to a table that is stored rotated, which version 1 does not allow.
    #[error("`{name}` is stored rotated and is the output head too: version 1 needs `output.weight`")]
    TiedOutput {
        /// The table.
        name: String,
    },
}

/// The metadata key under which an unfolded twin names the SHA-256 of the folded file that it was made from.
pub const UNFOLDED_FROM: &str = "lockstep.unfolded_from.sha256";

/// How a weight is folded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Its activation goes through the forward transform.
    Forward,
    /// Its rows go through the inverse transform after the lookup.
    Inverse,
}

/// The fold contract of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fold {
    version: u32,
    block: usize,
    /// Signs by input width; empty for `sign_mode = identity`.
    signs: BTreeMap<u64, Vec<i8>>,
    forward: Vec<String>,
    forward_set: HashSet<String>,
    inverse: Vec<String>,
    gdn_v_grouped: bool,
    ssm: HeadPermutation,
}

impl Fold {
    /// Reads the contract; `None` if the file has no key of it.
    ///
    /// # Errors
    /// [`ModelError::Fold`] for each rule that is broken, [`ModelError::Gguf`] for a key of the wrong type.
    pub fn read(gguf: &Gguf, hparams: &Hparams) -> Result<Option<Fold>, ModelError> {
        let metadata = gguf.metadata();
        let mut keys = metadata.iter().map(|(key, _)| key).filter(|key| key.starts_with(PREFIX));
        let Some(first) = keys.next() else { return Ok(None) };
        let full = |key: &str| format!("{PREFIX}{key}");
        if metadata.get(&full("version")).is_none() {
            return Err(FoldError::NoVersion { key: first.to_owned() }.into());
        }
        let version = metadata.u32(&full("version"))?;
        expect(version == 1, "version", version, "1")?;
        // After the version: another one may have other keys, and it is the version that the message should name.
        if let Some(key) =
            std::iter::once(first).chain(keys).find(|key| !KEYS.contains(&&key[PREFIX.len()..]))
        {
            return Err(FoldError::UnknownKey { key: key.to_owned() }.into());
        }
        let block = metadata.u32(&full("block_size"))?;
        expect(block.is_power_of_two() && block >= 2, "block_size", block, "a power of two, at least 2")?;
        for (key, expected) in [("transform", TRANSFORM), ("axis", AXIS)] {
            let got = metadata.str(&full(key))?;
            expect(got == expected, key, got, expected)?;
        }
        let signs = read_signs(gguf, block)?;
        let forward = metadata.str_array(&full("weight_names"))?.to_vec();
        expect(!forward.is_empty(), "weight_names", "[]", "at least one name")?;
        let inverse =
            metadata.optional_str_array(&full("inverse_weight_names"))?.unwrap_or_default().to_vec();
        let fold = Fold {
            version,
            block: block as usize,
            signs,
            forward_set: forward.iter().cloned().collect(),
            forward,
            inverse,
            gdn_v_grouped: metadata.optional_bool(&full("gdn_v_grouped"))?.unwrap_or(false),
            ssm: HeadPermutation::tiled_to_grouped(
                hparams.ssm_n_group,
                hparams.ssm_rep(),
                hparams.ssm_d_state,
            ),
        };
        fold.check(gguf, hparams)?;
        Ok(Some(fold))
    }

    fn check(&self, gguf: &Gguf, hparams: &Hparams) -> Result<(), FoldError> {
        let lists = [("weight_names", &self.forward), ("inverse_weight_names", &self.inverse)];
        for (key, names) in lists {
            let mut seen = HashSet::new();
            for name in names {
                if !seen.insert(name) {
                    return Err(FoldError::DuplicateName { key, name: name.clone() });
                }
                let fits = match key {
                    "weight_names" => is_foldable(name, hparams.n_layer),
                    _ => name == tensors::TOKEN_EMBD && !self.forward_set.contains(name),
                };
                if !fits {
                    return Err(FoldError::NotFoldable { key, name: name.clone() });
                }
                let Some(tensor) = gguf.tensor(name) else {
                    return Err(FoldError::MissingWeight { key, name: name.clone() });
                };
                let (width, block) = (tensor.info.ne[0], self.block as u64);
                if !width.is_multiple_of(block) {
                    return Err(FoldError::Block { name: name.clone(), width, block });
                }
                if !self.signs.is_empty() && !self.signs.contains_key(&width) {
                    let have = self.signs.keys().copied().collect();
                    return Err(FoldError::NoSigns { name: name.clone(), width, have });
                }
            }
        }
        match self.inverse.first() {
            Some(name) if gguf.tensor(tensors::OUTPUT).is_none() => {
                Err(FoldError::TiedOutput { name: name.clone() })
            }
            _ => Ok(()),
        }
    }

    /// The contract's version.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Elements of a Hadamard block.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Whether `ssm_out` reads grouped v heads.
    pub fn gdn_v_grouped(&self) -> bool {
        self.gdn_v_grouped
    }

    /// Input widths that have signs, ascending; empty for `sign_mode = identity`.
    pub fn widths(&self) -> impl Iterator<Item = u64> {
        self.signs.keys().copied()
    }

    /// The folded weights, in the file's order.
    pub fn forward_names(&self) -> &[String] {
        &self.forward
    }

    /// The tables that are stored rotated.
    pub fn inverse_names(&self) -> &[String] {
        &self.inverse
    }

    /// How a weight is folded, if it is.
    pub fn role(&self, name: &str) -> Option<Role> {
        if self.forward_set.contains(name) {
            Some(Role::Forward)
        } else if self.inverse.iter().any(|n| n == name) {
            Some(Role::Inverse)
        } else {
            None
        }
    }

    /// The transform of `name`, whose input width is `width`; `None` if it is not folded.
    pub fn transform(&self, name: &str, width: usize) -> Option<Transform<'_>> {
        let order = match self.role(name)? {
            Role::Forward => FoldOrder::SignsThenWht,
            Role::Inverse => FoldOrder::WhtThenSigns,
        };
        Some(Transform {
            order,
            block: self.block,
            normalize: true,
            signs: self.signs.get(&(width as u64)).map(Vec::as_slice),
            permutation: (self.gdn_v_grouped && is_ssm_out(name)).then(|| self.ssm.clone()),
        })
    }
}

fn expect(holds: bool, key: &'static str, got: impl ToString, expected: &str) -> Result<(), FoldError> {
    if holds {
        Ok(())
    } else {
        Err(FoldError::Value { key, got: got.to_string(), expected: expected.to_owned() })
    }
}

fn is_ssm_out(name: &str) -> bool {
    name.ends_with(".ssm_out.weight")
}

/// Whether the forward pass reads this weight through a transform.
fn is_foldable(name: &str, n_layer: usize) -> bool {
    if name == tensors::OUTPUT {
        return true;
    }
    let parts = name
        .strip_prefix("blk.")
        .and_then(|rest| rest.strip_suffix(".weight"))
        .and_then(|rest| rest.split_once('.'));
    let Some((layer, weight)) = parts else { return false };
    // `03` would name the same layer twice
    let canonical = layer.parse::<usize>().is_ok_and(|il| il < n_layer && il.to_string() == layer);
    canonical && (FOLDABLE.contains(&weight) || weight == SSM_OUT)
}

fn read_signs(gguf: &Gguf, block: u32) -> Result<BTreeMap<u64, Vec<i8>>, ModelError> {
    let metadata = gguf.metadata();
    let (widths_key, values_key) = (format!("{PREFIX}sign_widths"), format!("{PREFIX}sign_values"));
    match metadata.str(&format!("{PREFIX}sign_mode"))? {
        "explicit" => {}
        "identity" => {
            return match [widths_key, values_key].into_iter().find(|key| metadata.get(key).is_some()) {
                Some(key) => Err(FoldError::UnknownKey { key }.into()),
                None => Ok(BTreeMap::new()),
            };
        }
        got => {
            let expected = "`identity` or `explicit`".to_owned();
            return Err(FoldError::Value { key: "sign_mode", got: got.to_owned(), expected }.into());
        }
    }
    let widths = metadata.i32_array(&widths_key)?;
    let values = metadata.i32_array(&values_key)?;
    expect(!widths.is_empty(), "sign_widths", "[]", "at least one width")?;
    let mut signs = BTreeMap::new();
    let mut rest = values.as_slice();
    for &width in &widths {
        let fits = u32::try_from(width).is_ok_and(|w| w > 0 && w.is_multiple_of(block));
        expect(fits, "sign_widths", width, &format!("a positive multiple of block_size {block}"))?;
        let expected = format!("as many values as sign_widths {widths:?} add up to");
        let Some((mine, others)) = rest.split_at_checked(width as usize) else {
            let got = format!("{} values", values.len());
            return Err(FoldError::Value { key: "sign_values", got, expected }.into());
        };
        rest = others;
        if let Some(&bad) = mine.iter().find(|&&v| v != 1 && v != -1) {
            expect(false, "sign_values", bad, "1 or -1")?;
        }
        if signs.insert(width as u64, mine.iter().map(|&v| v as i8).collect()).is_some() {
            return Err(FoldError::RepeatedWidth { width }.into());
        }
    }
    let expected = format!("as many values as sign_widths {widths:?} add up to");
    expect(rest.is_empty(), "sign_values", format!("{} values", values.len()), &expected)?;
    Ok(signs)
}
