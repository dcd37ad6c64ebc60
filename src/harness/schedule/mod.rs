//! What is done with the tokens of one or more sequences: `llama-dump`'s `--schedule`, for an engine.
//!
//! Entries, separated by commas:
//! ```text
//! N         a batch of the next N tokens of sequence 0
//! S:N       a batch of the next N tokens of sequence S
//! 0:4+1:2   a batch of both
//! clear     all sequences start again at position 0
//! clear:S   sequence S starts again at position 0
//! back:S:N  the last N tokens of sequence S are taken back
//! copy:S:D  sequence D becomes a copy of S, and goes on at its position
//! ```

mod split;

use std::collections::BTreeMap;
use std::str::FromStr;

use self::split::split_equal;
use super::{HarnessError, Step};
use crate::engine::{StateChange, Ubatch};

/// The next tokens of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    sequence: i32,
    n: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Action {
    Batch(Vec<Part>),
    Clear,
    Remove(i32),
    Back(i32, usize),
    Copy(i32, i32),
}

/// A list of entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule(Vec<(String, Action)>);

impl Schedule {
    /// The tokens of each sequence in one batch, one sequence after the other.
    pub fn whole(sequences: &[Vec<u32>]) -> Schedule {
        let entry = |(sequence, tokens): (usize, &Vec<u32>)| {
            let (sequence, n) = (sequence as i32, tokens.len());
            (format!("{sequence}:{n}"), Action::Batch(vec![Part { sequence, n }]))
        };
        Schedule(sequences.iter().enumerate().map(entry).collect())
    }
}

fn refused(entry: &str, why: impl Into<String>) -> HarnessError {
    HarnessError::ScheduleEntry { entry: entry.to_owned(), why: why.into() }
}

impl FromStr for Schedule {
    type Err = HarnessError;

    fn from_str(text: &str) -> Result<Schedule, HarnessError> {
        let entry = |text: &str| Ok((text.to_owned(), action(text)?));
        text.split(',').map(|text| entry(text.trim())).collect::<Result<_, _>>().map(Schedule)
    }
}

fn action(text: &str) -> Result<Action, HarnessError> {
    let sequence = |word: &str| {
        let number = word.parse::<u16>().map_err(|_| refused(text, format!("`{word}` is no sequence")))?;
        Ok::<i32, HarnessError>(i32::from(number))
    };
    let count = |word: &str| match word.parse::<usize>() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(refused(text, format!("`{word}` is no number of tokens, at least 1"))),
    };
    let words: Vec<&str> = text.split(':').collect();
    Ok(match words[..] {
        ["clear"] => Action::Clear,
        ["clear", s] => Action::Remove(sequence(s)?),
        ["back", s, n] => Action::Back(sequence(s)?, count(n)?),
        ["copy", s, d] => Action::Copy(sequence(s)?, sequence(d)?),
        [verb, ..] if verb.starts_with(|c: char| c.is_alphabetic()) => {
            let known = "expected N, S:N, A:N+B:M, clear, clear:S, back:S:N or copy:S:D";
            return Err(refused(text, known));
        }
        _ => {
            let mut parts: Vec<Part> = Vec::new();
            for part in text.split('+') {
                let (s, n) = part.split_once(':').unwrap_or(("0", part));
                let part = Part { sequence: sequence(s)?, n: count(n)? };
                if parts.iter().any(|other| other.sequence == part.sequence) {
                    return Err(refused(text, format!("it names sequence {} twice", part.sequence)));
                }
                parts.push(part);
            }
            Action::Batch(parts)
        }
    })
}

/// How batches are cut into ubatches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Most tokens in one ubatch; none: as many as there are.
    pub n_ubatch: Option<usize>,
    /// Whether all sequences share one stream of KV cells; else only those with consecutive numbers run together.
    pub kv_unified: bool,
}

/// Where every sequence stands while a schedule is worked off.
pub struct Places<'t> {
    sequences: &'t [Vec<u32>],
    cut: Cut,
    taken: Vec<usize>,
    positions: BTreeMap<i32, i64>,
    /// The most positions that each sequence held.
    longest: BTreeMap<i32, i64>,
    before: Vec<StateChange>,
}

impl<'t> Places<'t> {
    /// All at position 0; `sequences[s]` are the tokens of sequence s in the order in which they are run.
    pub fn new(sequences: &'t [Vec<u32>], cut: Cut) -> Places<'t> {
        let (taken, before) = (vec![0; sequences.len()], Vec::new());
        Places { sequences, cut, taken, positions: BTreeMap::new(), longest: BTreeMap::new(), before }
    }

    /// The steps of a schedule.
    ///
    /// # Errors
    /// If an entry cannot be done, tokens are left over, or nothing is run behind the last change.
    pub fn steps(&mut self, schedule: &Schedule) -> Result<Vec<Step>, HarnessError> {
        let mut steps = Vec::new();
        for (entry, action) in &schedule.0 {
            match action {
                Action::Batch(parts) => {
                    let batch = self.batch(entry, parts)?;
                    steps.extend(self.cut(batch));
                }
                change => {
                    let change = self.change(entry, change)?;
                    self.before.push(change);
                }
            }
        }
        let left = self.sequences.iter().zip(&self.taken).find(|(tokens, taken)| tokens.len() != **taken);
        if let Some((tokens, &scheduled)) = left {
            return Err(HarnessError::Schedule { scheduled, tokens: tokens.len() });
        }
        match (self.before.is_empty(), schedule.0.last()) {
            (false, Some((entry, _))) => Err(refused(entry, "nothing is run behind it")),
            _ => Ok(steps),
        }
    }

    /// One more token for each sequence that has some, ascending.
    pub fn next(&mut self, tokens: &BTreeMap<i32, u32>) -> Vec<Step> {
        let mut batch = Vec::new();
        for (sequence, position) in &mut self.positions {
            if let Some(&token) = tokens.get(sequence) {
                batch.push(Token { token, position: *position, sequence: *sequence, output: true });
                *position += 1;
                let longest = self.longest.entry(*sequence).or_default();
                *longest = (*longest).max(*position);
            }
        }
        self.cut(batch)
    }

    /// The sequences that have tokens.
    pub fn occupied(&self) -> impl Iterator<Item = i32> {
        self.positions.keys().copied()
    }

    /// The cells that the sequences have needed: of the longest one, or together where they share a stream.
    pub fn cells(&self) -> usize {
        let longest = self.longest.values().map(|&n| n as usize);
        if self.cut.kv_unified { longest.sum() } else { longest.max().unwrap_or(0) }
    }

    fn batch(&mut self, entry: &str, parts: &[Part]) -> Result<Vec<Token>, HarnessError> {
        let mut batch = Vec::new();
        for &Part { sequence, n } in parts {
            let at = sequence as usize;
            let given = self.sequences.get(at).map_or(0, Vec::len);
            let taken = self.taken.get(at).copied().unwrap_or(0);
            if n > given - taken {
                let needed = taken + n;
                let why = format!("it needs {needed} tokens of sequence {sequence}, there are {given}");
                return Err(refused(entry, why));
            }
            self.taken[at] += n;
            let first = self.positions.get(&sequence).copied().unwrap_or(0);
            let tokens = self.sequences[at][taken..taken + n].iter().zip(first..).enumerate();
            batch.extend(
                tokens.map(|(i, (&token, position))| {
                    (i, Token { token, position, sequence, output: i + 1 == n })
                }),
            );
            let end = first + n as i64;
            self.positions.insert(sequence, end);
            let longest = self.longest.entry(sequence).or_default();
            *longest = (*longest).max(end);
        }
        // One token of each in turn.
        batch.sort_by_key(|&(i, _)| i);
        Ok(batch.into_iter().map(|(_, token)| token).collect())
    }

    fn change(&mut self, entry: &str, action: &Action) -> Result<StateChange, HarnessError> {
        let held = |sequence: i32| self.positions.get(&sequence).copied().unwrap_or(0);
        Ok(match *action {
            Action::Batch(_) => return Err(refused(entry, "it is a batch")),
            Action::Clear => {
                self.positions.clear();
                StateChange::Clear
            }
            Action::Remove(sequence) => {
                self.positions.remove(&sequence);
                StateChange::Remove { sequence, from: 0 }
            }
            Action::Back(sequence, n) => {
                let from = held(sequence) - n as i64;
                if from < 0 {
                    return Err(refused(entry, format!("sequence {sequence} has {} tokens", held(sequence))));
                }
                if from == 0 {
                    self.positions.remove(&sequence);
                } else {
                    self.positions.insert(sequence, from);
                }
                StateChange::Remove { sequence, from }
            }
            Action::Copy(from, to) => {
                let position = held(from);
                if position == 0 || held(to) != 0 || from == to {
                    return Err(refused(entry, "it takes a sequence with tokens and another one without"));
                }
                self.positions.insert(to, position);
                self.longest.entry(to).and_modify(|n| *n = (*n).max(position)).or_insert(position);
                StateChange::Copy { from, to }
            }
        })
    }

    /// The ubatches of a batch; the first one comes behind the changes that wait.
    fn cut(&mut self, batch: Vec<Token>) -> Vec<Step> {
        let n_ubatch = self.cut.n_ubatch.unwrap_or(batch.len());
        let mut steps: Vec<Step> = split_equal(&batch, n_ubatch, !self.cut.kv_unified)
            .into_iter()
            .map(|tokens| Step::from(Ubatch::from_iter(tokens)))
            .collect();
        if let Some(first) = steps.first_mut() {
            first.before = std::mem::take(&mut self.before);
        }
        steps
    }
}

/// A token of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Token {
    token: u32,
    position: i64,
    sequence: i32,
    output: bool,
}

impl FromIterator<Token> for Ubatch {
    fn from_iter<I: IntoIterator<Item = Token>>(tokens: I) -> Ubatch {
        let mut ubatch = Ubatch { tokens: vec![], positions: vec![], sequences: vec![], outputs: vec![] };
        for Token { token, position, sequence, output } in tokens {
            ubatch.tokens.push(token);
            ubatch.positions.push(position);
            ubatch.sequences.push(sequence);
            ubatch.outputs.push(output);
        }
        ubatch
    }
}

/// Cuts `tokens` into the ubatches of `schedule`, from position 0; logits are wanted for the last token of each.
///
/// # Errors
/// If the schedule does not add up to the tokens.
pub fn ubatches(tokens: &[u32], schedule: &[usize]) -> Result<Vec<Ubatch>, HarnessError> {
    let scheduled = schedule.iter().sum();
    if scheduled != tokens.len() || schedule.contains(&0) {
        return Err(HarnessError::Schedule { scheduled, tokens: tokens.len() });
    }
    let sequences = [tokens.to_vec()];
    let entry = |&n: &usize| (n.to_string(), Action::Batch(vec![Part { sequence: 0, n }]));
    let mut places = Places::new(&sequences, Cut { n_ubatch: None, kv_unified: false });
    let steps = places.steps(&Schedule(schedule.iter().map(entry).collect()))?;
    Ok(steps.into_iter().map(|step| step.ubatch).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: Cut = Cut { n_ubatch: None, kv_unified: false };

    fn steps(sequences: &[&[u32]], schedule: &str, cut: Cut) -> Result<Vec<Step>, HarnessError> {
        let sequences: Vec<Vec<u32>> = sequences.iter().map(|tokens| tokens.to_vec()).collect();
        Places::new(&sequences, cut).steps(&schedule.parse()?)
    }

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

    #[test]
    fn sequences_of_other_lengths_are_split() {
        let steps = steps(&[&[1, 2, 3], &[7, 8]], "0:2+1:1,clear:1,0:1+1:1", CUT).unwrap();
        let of = |at: usize| {
            let ubatch: &Ubatch = &steps[at].ubatch;
            (ubatch.tokens.clone(), ubatch.positions.clone(), ubatch.sequences.clone())
        };
        assert_eq!(of(0), (vec![1, 7], vec![0, 0], vec![0, 1]));
        assert_eq!(steps[0].ubatch.outputs, [false, true]);
        assert_eq!(of(1), (vec![2], vec![1], vec![0]));
        assert_eq!(of(2), (vec![3, 8], vec![2, 0], vec![0, 1]));
        assert_eq!(steps[2].before, [StateChange::Remove { sequence: 1, from: 0 }]);
        assert_eq!(steps.len(), 3);
    }

    #[test]
    fn tokens_taken_back_leave_their_position() {
        let steps = steps(&[&[1, 2, 3, 4], &[9]], "3,back:0:1,copy:0:1,1:1,1", CUT).unwrap();
        assert_eq!((steps[1].ubatch.positions[0], steps[2].ubatch.positions[0]), (2, 2));
        let before = [StateChange::Remove { sequence: 0, from: 2 }, StateChange::Copy { from: 0, to: 1 }];
        assert_eq!(steps[1].before, before);
    }

    #[test]
    fn a_batch_is_cut_into_ubatches() {
        let cut = Cut { n_ubatch: Some(2), kv_unified: false };
        let sizes =
            |steps: Vec<Step>| -> Vec<usize> { steps.iter().map(|s| s.ubatch.tokens.len()).collect() };
        assert_eq!(sizes(steps(&[&[1, 2, 3, 4, 5]], "5", cut).unwrap()), [2, 2, 1]);
        let mut places = Places::new(&[], cut);
        assert!(places.next(&BTreeMap::new()).is_empty());
    }

    #[test]
    fn what_cannot_be_done_is_named() {
        let message = |schedule: &str| steps(&[&[1, 2]], schedule, CUT).unwrap_err().to_string();
        for (schedule, why) in [
            ("3", "`3`: it needs 3 tokens of sequence 0, there are 2"),
            ("1:1", "`1:1`: it needs 1 tokens of sequence 1, there are 0"),
            ("0", "`0` is no number of tokens"),
            ("2,back:0:3", "`back:0:3`: sequence 0 has 2 tokens"),
            ("1+0:1", "it names sequence 0 twice"),
            ("2,clear", "`clear`: nothing is run behind it"),
            ("copy:0:1,2", "`copy:0:1`: it takes a sequence with tokens"),
            ("again", "`again`: expected N, S:N"),
            ("x:1", "expected N, S:N"),
            ("0x:1", "`0x` is no sequence"),
        ] {
            assert!(message(schedule).contains(why), "{schedule}: {}", message(schedule));
        }
    }
}
