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
        Ubatch { tokens: vec![next.token], positions: vec![next.position as i64], outputs: vec![true] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ubatch_wants_its_last_token() {
        let cut = ubatches(&[7, 8, 9], &[2, 1]).unwrap();
        assert_eq!(cut[0], Ubatch { tokens: vec![7, 8], positions: vec![0, 1], outputs: vec![false, true] });
        assert_eq!(cut[1], Ubatch { tokens: vec![9], positions: vec![2], outputs: vec![true] });
        assert!(matches!(ubatches(&[7, 8], &[1]), Err(HarnessError::Schedule { scheduled: 1, tokens: 2 })));
        assert!(ubatches(&[7], &[1, 0]).is_err());
    }
}
