//! The identity of a tensor within a run.

use std::fmt;

/// `(step, name, occurrence)`: what makes a tensor of a run unique.
///
/// A *step* is one evaluation of the graph (one ubatch), counted from 0. llama.cpp gives several
/// nodes of one graph the same name (`norm-3`, `Kcur-3`); `occurrence` counts them in evaluation
/// order, from 0.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TensorId {
    /// Which evaluation of the graph, from 0.
    pub step: u32,
    /// llama.cpp's name, layer suffix included: `attn_norm-3`.
    pub name: String,
    /// Which of the nodes with this name in this step, from 0.
    pub occurrence: u32,
}

impl TensorId {
    /// The layer in the name's suffix: 3 for `attn_norm-3`, none for `result_output`.
    pub fn layer(&self) -> Option<u32> {
        layer_of(&self.name)
    }

    /// The name without its layer: `attn_norm` for `attn_norm-3`.
    pub fn kind(&self) -> &str {
        match self.layer() {
            Some(_) => self.name.rsplit_once('-').map_or(self.name.as_str(), |(kind, _)| kind),
            None => &self.name,
        }
    }
}

impl fmt::Display for TensorId {
    /// `norm-3 #1 (step 2)`; the occurrence is left out when it is 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.occurrence > 0 {
            write!(f, " #{}", self.occurrence)?;
        }
        write!(f, " (step {})", self.step)
    }
}

/// The layer in a llama.cpp tensor name: the number after the last `-`, if all digits.
pub fn layer_of(name: &str) -> Option<u32> {
    let (_, digits) = name.rsplit_once('-')?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_is_the_whole_suffix() {
        assert_eq!(layer_of("l_out-1"), Some(1));
        assert_eq!(layer_of("l_out-10"), Some(10));
        assert_eq!(layer_of("result_output"), None);
        assert_eq!(layer_of("odd-"), None);
        assert_eq!(layer_of("odd-3x"), None);
    }

    #[test]
    fn displays_like_a_reader_would_say_it() {
        let id = TensorId { step: 2, name: "norm-3".into(), occurrence: 1 };
        assert_eq!(id.to_string(), "norm-3 #1 (step 2)");
        assert_eq!((id.kind(), id.layer()), ("norm", Some(3)));
    }
}
