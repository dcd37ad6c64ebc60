//! Cutting tokens into ubatches.

use super::HarnessError;
use crate::engine::Ubatch;

/// Cuts `tokens` into the ubatches of `schedule`, from position 0; logits are wanted for the last token of each.
///
/// # Errors
/// If the schedule does not add up to the tokens.
pub fn ubatches(tokens: &[u32], schedule: &[usize]) -> Result<Vec<Ubatch>, HarnessError> {
    let scheduled = schedule.iter().sum();
    if scheduled != tokens.len() || schedule.contains(&0) {
        return Err(HarnessError::Schedule { scheduled, tokens: tokens.len() });
    }
    let mut start = 0;
    Ok(schedule
        .iter()
        .map(|&n| {
            let range = start..start + n;
            start = range.end;
            Ubatch {
                tokens: tokens[range.clone()].to_vec(),
                positions: range.clone().map(|p| p as i64).collect(),
                sequences: vec![0; n],
                outputs: range.clone().map(|p| p + 1 == range.end).collect(),
            }
        })
        .collect())
}

/// One more token behind what has been run.
pub struct Continuation {
    /// Its position.
    pub position: usize,
    /// Its id.
    pub token: u32,
}

impl From<Continuation> for Ubatch {
    fn from(next: Continuation) -> Ubatch {
        Ubatch {
            tokens: vec![next.token],
            positions: vec![next.position as i64],
            sequences: vec![0],
            outputs: vec![true],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ubatch_wants_its_last_token() {
        let cut = ubatches(&[7, 8, 9], &[2, 1]).unwrap();
        let expected = |tokens: &[u32], positions: &[i64], outputs: &[bool]| Ubatch {
            tokens: tokens.to_vec(),
            positions: positions.to_vec(),
            sequences: vec![0; tokens.len()],
            outputs: outputs.to_vec(),
        };
        assert_eq!(cut[0], expected(&[7, 8], &[0, 1], &[false, true]));
        assert_eq!(cut[1], expected(&[9], &[2], &[true]));
        assert!(matches!(ubatches(&[7, 8], &[1]), Err(HarnessError::Schedule { scheduled: 1, tokens: 2 })));
        assert!(ubatches(&[7], &[1, 0]).is_err());
    }
}
