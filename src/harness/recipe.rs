//! How the model of a case is had: made from a preset, or fetched by `scripts/real-models.sh`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::HarnessError;
use crate::gguf::sha256;
use crate::synth::{PRESETS, Progress, TYPES, is_folded, preset, unfold, write_mixed};
use crate::tensor::GgmlType;

/// Where made models lie in the cache.
const MADE: &str = "models";
/// Where `scripts/real-models.sh` puts fetched ones.
const FETCHED: &str = "real-models";
/// Characters of a hash that name a model in the cache.
const SHORT_HASH: usize = 12;

/// How the model of a case is had.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "Keys")]
pub enum ModelRecipe {
    /// Made.
    Synthetic {
        /// A preset of `synth`.
        preset: String,
        /// Its seed.
        seed: u64,
        /// The type of its weights (`pq2_0`), or several that take turns (`q8_0,q4_K`).
        ty: String,
        /// SHA-256 of the file that this gives.
        sha256: String,
    },
    /// Fetched.
    Fetched {
        /// Its name in `scripts/real-models.sh`.
        name: String,
        /// SHA-256 of the file.
        sha256: String,
    },
}

/// The keys of `[model]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    preset: Option<String>,
    seed: Option<u64>,
    #[serde(rename = "type")]
    ty: Option<String>,
    fetch: Option<String>,
    sha256: String,
}

impl TryFrom<Keys> for ModelRecipe {
    type Error = &'static str;

    fn try_from(keys: Keys) -> Result<ModelRecipe, &'static str> {
        let sha256 = keys.sha256;
        match (keys.preset, keys.seed, keys.ty, keys.fetch) {
            (Some(preset), Some(seed), Some(ty), None) => {
                Ok(ModelRecipe::Synthetic { preset, seed, ty, sha256 })
            }
            (None, None, None, Some(name)) if is_bare(&name) => Ok(ModelRecipe::Fetched { name, sha256 }),
            (None, None, None, Some(_)) => Err("fetch must be a bare name: letters, digits, `-` and `_`"),
            _ => Err("[model] needs either preset, seed and type, or fetch"),
        }
    }
}

/// Whether a name can only stand for a file of the folder that it is looked up in.
fn is_bare(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

impl ModelRecipe {
    /// What it is called.
    pub fn name(&self) -> &str {
        match self {
            ModelRecipe::Synthetic { preset, .. } => preset,
            ModelRecipe::Fetched { name, .. } => name,
        }
    }

    /// The model's file in `cache`, made unless a good one is there. `case_file` is named in errors.
    pub(super) fn build(
        &self,
        case_file: &Path,
        cache: &Path,
        progress: Progress<'_>,
    ) -> Result<PathBuf, HarnessError> {
        match self {
            ModelRecipe::Synthetic { preset, seed, ty, sha256 } => {
                make(case_file, (preset, *seed, ty), sha256, &cache.join(MADE), progress)
            }
            ModelRecipe::Fetched { name, sha256 } => {
                fetched(name, sha256, cache.join(FETCHED).join(format!("{name}.gguf")))
            }
        }
    }

    /// The file that llama.cpp ran: the unfolded twin, made unless it is there, where the recipe gives a folded model.
    pub(super) fn build_twin(
        &self,
        case_file: &Path,
        cache: &Path,
        progress: Progress<'_>,
    ) -> Result<PathBuf, HarnessError> {
        match self {
            ModelRecipe::Synthetic { ty, .. } if GgmlType::from_name(ty).is_some_and(is_folded) => {
                let model = self.build(case_file, cache, &mut |_, _| {})?;
                let twin = model.with_extension("unfolded.gguf");
                // A twin names the model it was made from, and appears only when it is complete.
                if !twin.is_file() {
                    unfold(&model, &twin, progress)?;
                }
                Ok(twin)
            }
            _ => self.build(case_file, cache, progress),
        }
    }
}

fn make(
    case_file: &Path,
    (preset_name, seed, ty): (&str, u64, &str),
    expected: &str,
    folder: &Path,
    progress: Progress<'_>,
) -> Result<PathBuf, HarnessError> {
    let value = |key, got: &str, expected: Vec<&str>| HarnessError::CaseValue {
        path: case_file.to_owned(),
        key,
        got: got.to_owned(),
        expected: expected.join(", "),
    };
    let preset = preset(preset_name)
        .ok_or_else(|| value("preset", preset_name, PRESETS.iter().map(|p| p.name).collect()))?;
    let types: Option<Vec<GgmlType>> = ty.split(',').map(GgmlType::from_name).collect();
    let types = types.ok_or_else(|| value("type", ty, TYPES.iter().map(|t| t.name()).collect()))?;
    let short = expected.get(..SHORT_HASH).unwrap_or(expected);
    let path = folder.join(format!("{preset_name}-{seed}-{ty}-{short}.gguf"));
    if path.is_file() && sha256(&path)? == *expected {
        return Ok(path);
    }
    let cause = |e: std::io::Error| HarnessError::CaseFile { path: folder.to_owned(), cause: e.to_string() };
    fs::create_dir_all(folder).map_err(cause)?;
    write_mixed(preset, seed, &types, &path, progress)?;
    let got = sha256(&path)?;
    if got != *expected {
        let (preset, expected) = (preset_name.to_owned(), expected.to_owned());
        return Err(HarnessError::Recipe { preset, seed, got, expected });
    }
    Ok(path)
}

fn fetched(name: &str, expected: &str, path: PathBuf) -> Result<PathBuf, HarnessError> {
    if !path.is_file() {
        return Err(HarnessError::NotFetched { name: name.to_owned(), path });
    }
    let got = sha256(&path)?;
    if got != *expected {
        return Err(HarnessError::FetchedOther { path, got, expected: expected.to_owned() });
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(text: &str) -> Result<ModelRecipe, toml::de::Error> {
        toml::from_str(text)
    }

    fn build(recipe: &ModelRecipe, cache: &Path) -> Result<PathBuf, HarnessError> {
        recipe.build(Path::new("case.toml"), cache, &mut |_, _| {})
    }

    #[test]
    fn a_model_is_made_or_fetched_and_nothing_else() {
        let made = recipe("preset = \"nano-bonsai\"\nseed = 1\ntype = \"q8_0\"\nsha256 = \"00\"").unwrap();
        assert_eq!(made.name(), "nano-bonsai");
        let fetched = recipe("fetch = \"smollm2\"\nsha256 = \"00\"").unwrap();
        assert_eq!(fetched, ModelRecipe::Fetched { name: "smollm2".into(), sha256: "00".into() });
        for (text, word) in [
            ("sha256 = \"00\"", "needs either"),
            ("preset = \"nano-bonsai\"\nfetch = \"smollm2\"\nsha256 = \"00\"", "needs either"),
            ("preset = \"nano-bonsai\"\nseed = 1\nsha256 = \"00\"", "needs either"),
            ("fetch = \"../smollm2\"\nsha256 = \"00\"", "bare name"),
            ("fetch = \"\"\nsha256 = \"00\"", "bare name"),
            ("fetch = \"smollm2\"", "sha256"),
            ("fetch = \"smollm2\"\nsha256 = \"00\"\ntolerance = 1", "tolerance"),
        ] {
            let error = recipe(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn weights_that_are_absent_or_others_are_refused() {
        let cache = tempfile::tempdir().unwrap();
        let recipe = recipe("fetch = \"smollm2\"\nsha256 = \"00\"").unwrap();
        let absent = build(&recipe, cache.path()).unwrap_err();
        assert!(matches!(absent, HarnessError::NotFetched { .. }), "{absent}");
        assert!(absent.to_string().contains("scripts/real-models.sh --fetch smollm2"), "{absent}");
        fs::create_dir(cache.path().join(FETCHED)).unwrap();
        fs::write(cache.path().join(FETCHED).join("smollm2.gguf"), "GGUF").unwrap();
        let other = build(&recipe, cache.path()).unwrap_err();
        assert!(matches!(other, HarnessError::FetchedOther { .. }), "{other}");
    }

    #[test]
    fn a_recipe_that_gives_another_model_or_none_is_refused() {
        let cache = tempfile::tempdir().unwrap();
        let of = |preset: &str, ty: &str| ModelRecipe::Synthetic {
            preset: preset.into(),
            seed: 1,
            ty: ty.into(),
            sha256: "00".into(),
        };
        let refused = |preset, ty| build(&of(preset, ty), cache.path()).unwrap_err();
        assert!(matches!(refused("nano-bonsai", "q8_0,q4_K"), HarnessError::Recipe { .. }));
        assert!(matches!(refused("maxi-bonsai", "q8_0"), HarnessError::CaseValue { key: "preset", .. }));
        assert!(matches!(refused("nano-bonsai", "q8_0,q9_9"), HarnessError::CaseValue { key: "type", .. }));
        assert!(matches!(refused("nano-bonsai", "q8_0,pq2_0"), HarnessError::Synth(_)));
    }

    #[test]
    fn only_folded_models_have_a_twin() {
        let cache = tempfile::tempdir().unwrap();
        let twin = |ty: &str, sha256: &str| {
            let (preset, ty, sha256) = ("nano-bonsai".into(), ty.into(), sha256.into());
            let recipe = ModelRecipe::Synthetic { preset, seed: 1, ty, sha256 };
            recipe.build_twin(Path::new("case.toml"), cache.path(), &mut |_, _| {})
        };
        let hash = |ty: &str| match twin(ty, "00") {
            Err(HarnessError::Recipe { got, .. }) => got,
            other => panic!("{other:?}"),
        };
        let name =
            |ty: &str| twin(ty, &hash(ty)).unwrap().file_name().unwrap().to_string_lossy().into_owned();
        assert!(name("pq2_0").ends_with(".unfolded.gguf"));
        assert!(!name("q8_0").contains("unfolded"));
    }
}
