//! The invariants: for each, two runs that must give the same.
//!
//! Adding one: a function that gives its [`Plan`]s at a length, and one line in [`INVARIANTS`].

use std::ops::Range;

use super::script::{Act, Script};
use super::{Subject, SumOrder};
use crate::engine::{Memory, StateChange, Ubatch};
use crate::harness::{HarnessError, Step};

/// Tokens that some invariants run behind the length that is tried.
pub(super) const EXTRA: usize = 3;

/// Tokens that can be taken back where that is tried.
const N_RS_SEQ: usize = 2;

/// What an engine must do.
pub struct Invariant {
    /// Its name.
    pub name: &'static str,
    /// What must be equal, in one line.
    pub line: &'static str,
    /// Whether it can be tried with an engine, or why not.
    needs: fn(&dyn Subject) -> Result<(), &'static str>,
    /// The runs at a length.
    pub(super) plan: fn(&Prompts, usize) -> Vec<Plan<'static>>,
}

impl Invariant {
    pub(super) fn applies(&self, subject: &dyn Subject) -> Result<(), String> {
        (self.needs)(subject).map_err(str::to_owned)
    }
}

/// With what a token is run together in the two runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cuts {
    /// The same ubatches.
    Same,
    /// The same tokens of its sequence, beside others or alone.
    OfSequence,
    /// Other tokens of its sequence.
    Other,
}

/// Two runs that must give the same.
pub(super) struct Plan<'a> {
    /// What the second run does.
    pub(super) what: String,
    pub(super) expected: Script,
    pub(super) actual: Script,
    /// With what each token is run together.
    pub(super) cuts: Cuts,
    /// Whose run is expected; none: the engine's own.
    pub(super) of: Option<&'a dyn Subject>,
}

/// The name of the invariant that compares engines with each other.
pub(super) const ROUTES: &str = "routes";

/// Every invariant.
pub const INVARIANTS: &[Invariant] = &[
    Invariant { name: "split", line: "one ubatch = any split = token by token", needs: nothing, plan: split },
    Invariant { name: "decode", line: "prefill and decode = prefill", needs: nothing, plan: decode },
    Invariant {
        name: "reset",
        line: "after others were forgotten = in a new engine",
        needs: nothing,
        plan: reset,
    },
    Invariant {
        name: "interleaved",
        line: "two sequences of other lengths in one batch = each alone",
        needs: nothing,
        plan: interleaved,
    },
    Invariant {
        name: "batch",
        line: "three sequences in a ubatch = each alone",
        needs: nothing,
        plan: batch,
    },
    Invariant {
        name: "fork",
        line: "a sequence whose copy goes on otherwise = one without a copy",
        needs: nothing,
        plan: fork,
    },
    Invariant {
        name: "rollback",
        line: "tokens taken back and others in their place = never gone",
        needs: rolls_back,
        plan: rollback,
    },
    Invariant {
        name: "snapshot",
        line: "a snapshot restored = uninterrupted",
        needs: nothing,
        plan: snapshot,
    },
];

fn nothing(_: &dyn Subject) -> Result<(), &'static str> {
    Ok(())
}

fn rolls_back(subject: &dyn Subject) -> Result<(), &'static str> {
    subject.can_roll_back()
}

/// The tokens of three sequences.
pub(super) struct Prompts([Vec<u32>; 3]);

impl Prompts {
    /// Three sequences of `n` tokens each, which differ from the first token on: `tokens` from three places, over and over.
    pub(super) fn cut(tokens: &[u32], n: usize) -> Result<Prompts, HarnessError> {
        if tokens.is_empty() || n <= EXTRA {
            return Err(HarnessError::NothingToRun);
        }
        let mut starts: Vec<usize> = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            if starts.len() < 3 && !starts.iter().any(|&start| tokens[start] == *token) {
                starts.push(at);
            }
        }
        let [first, second, third] = starts[..] else {
            return Err(HarnessError::AlikeTokens { distinct: starts.len() });
        };
        let from = |start: usize| tokens.iter().cycle().skip(start).take(n).copied().collect();
        Ok(Prompts([from(first), from(second), from(third)]))
    }

    pub(super) fn len(&self) -> usize {
        self.0[0].len()
    }

    pub(super) fn sequences(&self) -> Range<i32> {
        0..self.0.len() as i32
    }

    /// One ubatch of some tokens of each of some sequences, equally many.
    pub(super) fn step(&self, parts: &[(i32, Range<usize>)]) -> Step {
        let mut ubatch = Ubatch { tokens: vec![], positions: vec![], sequences: vec![], outputs: vec![] };
        for (sequence, range) in parts {
            ubatch.tokens.extend(&self.0[*sequence as usize][range.clone()]);
            ubatch.positions.extend(range.clone().map(|position| position as i64));
            ubatch.sequences.extend(vec![*sequence; range.len()]);
            ubatch.outputs.extend(vec![true; range.len()]);
        }
        Step::from(ubatch)
    }

    /// Other tokens of a sequence in the same place, each unlike the one that belongs there.
    fn wrong(&self, sequence: i32, range: Range<usize>) -> Step {
        let mut step = self.step(&[(sequence, range)]);
        for token in &mut step.ubatch.tokens {
            let other = self.0.iter().map(|prompt| prompt[0]).find(|first| first != token);
            *token = other.unwrap_or(*token);
        }
        step
    }

    /// Steps of one sequence, cut as given.
    fn cut_steps(&self, sequence: i32, start: usize, cuts: &[usize]) -> Vec<Act> {
        let mut at = start;
        let mut next = |n: usize| {
            at += n;
            Act::Step(self.step(&[(sequence, at - n..at)]))
        };
        cuts.iter().filter(|&&n| n > 0).map(|&n| next(n)).collect()
    }

    /// A run of one sequence alone, cut as given.
    fn alone(&self, sequence: i32, cuts: &[usize]) -> Script {
        self.script(Memory::default(), self.cut_steps(sequence, 0, cuts), &[sequence])
    }

    fn script(&self, memory: Memory, acts: Vec<Act>, states: &[i32]) -> Script {
        let streams = if memory.kv_unified { self.0.len() } else { 1 };
        Script { memory, n_ctx: streams * (self.len() + N_RS_SEQ), acts, states: states.to_vec() }
    }
}

/// `64 + 1`, or `65 x 1`.
fn cuts_name(cuts: &[usize]) -> String {
    match cuts {
        [first, rest @ ..] if rest.len() > 1 && rest.iter().all(|n| n == first) => {
            format!("{} x {first}", cuts.len())
        }
        [first, rest @ ..] if rest.len() > 3 && rest[1..].iter().all(|n| *n == rest[0]) => {
            format!("{first} + {} x {}", rest.len(), rest[0])
        }
        _ => cuts.iter().map(usize::to_string).collect::<Vec<_>>().join(" + "),
    }
}

/// Pieces of `size`, the last one with what is left.
fn pieces(length: usize, size: usize) -> Vec<usize> {
    let rest = length % size;
    let mut cuts = vec![size; length / size];
    cuts.extend((rest > 0).then_some(rest));
    cuts
}

/// None of one token, which cannot be cut: the same run twice would show nothing.
fn split(prompts: &Prompts, length: usize) -> Vec<Plan<'static>> {
    let edge = length.saturating_sub(1) / 64 * 64; // the last edge of a chunk
    let mut ways = vec![
        vec![1; length],
        vec![1, length - 1],
        vec![length / 2, length - length / 2],
        vec![edge, length - edge],
        pieces(length, 7),
        pieces(length, 32),
    ];
    ways.retain(|cuts| !cuts.contains(&0) && cuts.len() > 1);
    ways.sort();
    ways.dedup();
    let plan = |cuts: Vec<usize>| Plan {
        what: cuts_name(&cuts),
        expected: prompts.alone(0, &[length]),
        actual: prompts.alone(0, &cuts),
        cuts: Cuts::Other,
        of: None,
    };
    ways.into_iter().map(plan).collect()
}

fn decode(prompts: &Prompts, length: usize) -> Vec<Plan<'static>> {
    let mut cuts = vec![length];
    cuts.extend([1; EXTRA]);
    let expected = prompts.alone(0, &[length + EXTRA]);
    let (what, actual) = (cuts_name(&cuts), prompts.alone(0, &cuts));
    vec![Plan { what, expected, actual, cuts: Cuts::Other, of: None }]
}

fn reset(prompts: &Prompts, length: usize) -> Vec<Plan<'static>> {
    let cuts = [length, 1];
    let other = Act::Aside(prompts.wrong(0, 0..length));
    let own = || prompts.cut_steps(0, 0, &cuts);
    let mut cleared = own();
    if let Some(Act::Step(first)) = cleared.first_mut() {
        first.before.push(StateChange::Clear);
    }
    let mut removed = own();
    if let Some(Act::Step(first)) = removed.first_mut() {
        first.before.push(StateChange::Remove { sequence: 0, from: 0 });
    }
    let renewed = [vec![Act::Reset], own()].concat();
    let ways = [("clear", cleared), ("remove the sequence", removed), ("reset", renewed)];
    let plan = |(way, rest): (&str, Vec<Act>)| Plan {
        what: format!("{length} others, {way}, {}", cuts_name(&cuts)),
        expected: prompts.alone(0, &cuts),
        actual: prompts.script(Memory::default(), [vec![other.clone()], rest].concat(), &[0]),
        cuts: Cuts::Same,
        of: None,
    };
    ways.into_iter().map(plan).collect()
}

/// Two sequences: as much as both have in one ubatch, the rest of the longer one in another, as llama.cpp splits such a batch,
/// then a token of each.
fn interleaved(prompts: &Prompts, length: usize) -> Vec<Plan<'static>> {
    let short = length.div_ceil(2);
    let mut acts = vec![Act::Step(prompts.step(&[(0, 0..short), (1, 0..short)]))];
    acts.extend(prompts.cut_steps(0, short, &[length - short]));
    acts.push(Act::Step(prompts.step(&[(0, length..length + 1), (1, short..short + 1)])));
    let cuts = [vec![short, length - short, 1], vec![short, 1]];
    side_by_side(prompts, acts, &cuts, &format!("{length} and {short} tokens, then one of each"))
}

fn batch(prompts: &Prompts, length: usize) -> Vec<Plan<'static>> {
    let all = |range: Range<usize>| -> Vec<_> { prompts.sequences().map(|s| (s, range.clone())).collect() };
    let acts = [0..length, length..length + 1].map(|range| Act::Step(prompts.step(&all(range))));
    let cuts = vec![vec![length, 1]; prompts.0.len()];
    side_by_side(prompts, acts.to_vec(), &cuts, &format!("{} x {length}, then one of each", cuts.len()))
}

/// A run of several sequences beside a run of each alone, in streams of their own and in a common one. What the others hold is
/// compared by their own plan.
fn side_by_side(prompts: &Prompts, acts: Vec<Act>, cuts: &[Vec<usize>], what: &str) -> Vec<Plan<'static>> {
    let mut plans = Vec::new();
    for kv_unified in [false, true] {
        let memory = Memory { kv_unified, n_rs_seq: 0 };
        let expected: Vec<Act> = cuts
            .iter()
            .enumerate()
            .flat_map(|(sequence, cuts)| prompts.cut_steps(sequence as i32, 0, cuts))
            .collect();
        let states: Vec<i32> = (0..cuts.len() as i32).collect();
        plans.push(Plan {
            what: format!("{what}{}", if kv_unified { ", one stream" } else { "" }),
            // One after the other in streams of their own: none is ever in a ubatch with another.
            expected: prompts.script(Memory::default(), expected, &states),
            actual: prompts.script(memory, acts.clone(), &states),
            cuts: Cuts::OfSequence,
            of: None,
        });
    }
    plans
}

fn fork(prompts: &Prompts, length: usize) -> Vec<Plan<'static>> {
    let plan = |kv_unified: bool| {
        let mut copied = prompts.wrong(1, length..length + 2);
        copied.before.push(StateChange::Copy { from: 0, to: 1 });
        let mut acts = prompts.cut_steps(0, 0, &[length]);
        acts.push(Act::Aside(copied));
        acts.extend(prompts.cut_steps(0, length, &[2]));
        let memory = Memory { kv_unified, n_rs_seq: 0 };
        Plan {
            what: format!("{length}, copy, 2 others{}", if kv_unified { ", one stream" } else { "" }),
            expected: prompts.alone(0, &[length, 2]),
            actual: prompts.script(memory, acts, &[0]),
            cuts: Cuts::Same,
            of: None,
        }
    };
    vec![plan(false), plan(true)]
}

fn rollback(prompts: &Prompts, length: usize) -> Vec<Plan<'static>> {
    let memory = Memory { kv_unified: false, n_rs_seq: N_RS_SEQ };
    let plan = |back: usize, wrong: Vec<Act>, how: &str| {
        let mut next = prompts.cut_steps(0, length, &[2]);
        if let Some(Act::Step(first)) = next.first_mut() {
            first.before.push(StateChange::Remove { sequence: 0, from: length as i64 });
        }
        Plan {
            what: format!("{length}, {back} others {how}, back {back}, 2"),
            expected: prompts.alone(0, &[length, 2]),
            actual: prompts.script(memory, [prompts.cut_steps(0, 0, &[length]), wrong, next].concat(), &[0]),
            cuts: Cuts::Same,
            of: None,
        }
    };
    let aside = |range: Range<usize>| Act::Aside(prompts.wrong(0, range));
    vec![
        plan(2, vec![aside(length..length + 2)], "in one ubatch"),
        plan(2, vec![aside(length..length + 1), aside(length + 1..length + 2)], "one by one"),
    ]
}

fn snapshot(prompts: &Prompts, length: usize) -> Vec<Plan<'static>> {
    let mut acts = prompts.cut_steps(0, 0, &[length]);
    acts.extend([Act::Save, Act::Aside(prompts.wrong(0, length..length + 2)), Act::Restore]);
    acts.extend(prompts.cut_steps(0, length, &[2]));
    vec![Plan {
        what: format!("{length}, snapshot, 2 others, restore, 2"),
        expected: prompts.alone(0, &[length, 2]),
        actual: prompts.script(Memory::default(), acts, &[0]),
        cuts: Cuts::Same,
        of: None,
    }]
}

/// Two engines on the same tokens in one ubatch, and one more token.
pub(super) fn routes<'a>(prompts: &Prompts, length: usize, of: &'a dyn Subject) -> Plan<'a> {
    let script = || prompts.alone(0, &[length, 1]);
    let what = cuts_name(&[length, 1]);
    Plan {
        what,
        expected: script(),
        actual: script(),
        cuts: if of.sum_order() == SumOrder::ByToken { Cuts::Same } else { Cuts::Other },
        of: Some(of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_named_short() {
        assert_eq!(cuts_name(&[64, 1]), "64 + 1");
        assert_eq!(cuts_name(&[1; 5]), "5 x 1");
        assert_eq!(cuts_name(&[9, 1, 1, 1, 1, 1]), "9 + 5 x 1");
        assert_eq!((pieces(9, 7), pieces(14, 7)), (vec![7, 2], vec![7, 7]));
    }

    #[test]
    fn splits_cover_the_length_and_edges_of_chunks() {
        let prompts = Prompts::cut(&[1, 2, 3, 4, 5], 133).unwrap();
        for length in super::super::LENGTHS {
            let plans = split(&prompts, length);
            assert_eq!(plans.is_empty(), length == 1);
            for plan in &plans {
                let n = |script: &Script| -> usize {
                    script
                        .acts
                        .iter()
                        .map(|act| if let Act::Step(step) = act { step.ubatch.tokens.len() } else { 0 })
                        .sum()
                };
                assert_eq!((n(&plan.expected), n(&plan.actual)), (length, length));
            }
        }
        assert!(split(&prompts, 130).iter().any(|plan| plan.what == "128 + 2"));
        assert!(split(&prompts, 65).iter().any(|plan| plan.what == "65 x 1"));
    }

    #[test]
    fn the_sequences_are_unlike() {
        let prompts = Prompts::cut(&[1, 1, 3, 4, 5], 7).unwrap();
        assert_eq!(prompts.0[0], [1, 1, 3, 4, 5, 1, 1]);
        assert_eq!(prompts.0[1], [3, 4, 5, 1, 1, 3, 4]);
        assert_eq!(prompts.0[2], [4, 5, 1, 1, 3, 4, 5]);
        assert_eq!(prompts.wrong(0, 1..4).ubatch.tokens, [3, 1, 1]);
        assert!(matches!(Prompts::cut(&[7, 9, 7], 9), Err(HarnessError::AlikeTokens { distinct: 2 })));
        assert!(Prompts::cut(&[], 9).is_err() && Prompts::cut(&[1], EXTRA).is_err());
    }
}
