//! Questions: each is one convention that a reader of the weights cannot see, with its candidates.
//!
//! Every candidate is evaluated in f64 from the reference's own inputs, at every layer and step that the dump holds, and compared
//! with what the reference computed. A candidate *fits* if rounding explains every element (`ops::Tracked` says what rounding may
//! do). One that fits alone is the answer; several are a tie, which another input would separate; none is an answer too, and the
//! error's shape is named.
//!
//! Adding a question: a file here, its `mod` line and one line in [`QUESTIONS`] (CONTRIBUTING.md).

mod asking;

// the fold
mod alpha_beta_input;
mod attn_output_permutation;
mod embedding_inverse_order;
mod fold_block;
mod fold_order;
mod fold_scale;
mod ssm_out_permutation;

// attention
mod attn_gate;
mod attn_head_map;
mod attn_scale;
mod kv_type;
mod qgate_split;
mod qk_norm;
mod rope_base;
mod rope_dims;
mod rope_pairing;
mod rope_sections;

// the delta net
mod conv_activation;
mod conv_kernel_order;
mod conv_window;
mod decay_form;
mod gates;
mod gdn_head_map;
mod gdn_route;
mod gdn_scale;
mod qk_l2_norm;
mod qkv_split_order;
mod ssm_norm_eps;
mod ssm_norm_gate;
mod ssm_norm_scope;
mod state_layout;
mod update_order;
mod update_rule;

// everywhere
mod rms_norm_eps_place;
mod rms_norm_weight;
mod swiglu_order;
mod view_layout;

// weights and activations
mod activation_rounding;
mod code_map;
mod code_order;

pub use asking::{
    Answer, AskError, Group, Looked, Outcome, Probe, Site, Stop, Subject, Trial, TrialScores, Verdict,
};

use rayon::prelude::*;

/// One way in which it can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Its name, that of the engine's convention where there is one.
    pub name: &'static str,
    /// What it is, in a formula or a few words.
    pub means: &'static str,
    /// The candidate that it is the same as, by algebra.
    pub same_as: Option<&'static str>,
}

/// A candidate.
const fn candidate(name: &'static str, means: &'static str) -> Candidate {
    Candidate { name, means, same_as: None }
}

/// A convention with its candidates.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Its name.
    pub name: &'static str,
    /// What is unknown, in one line that ends with a question mark.
    pub asks: &'static str,
    /// The candidates; the first is what llama.cpp b11434 does, where that does not depend on the file.
    pub candidates: &'static [Candidate],
    /// What input would separate those that a dump cannot tell apart.
    pub separated_by: &'static str,
    /// That input.
    pub probe: Probe,
    /// Scores the candidates at a site.
    look: fn(&Site<'_>) -> Looked,
    /// What else can be found, if there is anything.
    also: fn(&Subject<'_>) -> Result<Vec<String>, AskError>,
}

impl PartialEq for Question {
    fn eq(&self, other: &Question) -> bool {
        self.name == other.name
    }
}

/// Nothing else.
fn nothing_else(_: &Subject<'_>) -> Result<Vec<String>, AskError> {
    Ok(Vec::new())
}

impl Question {
    /// The first of the candidates that are the same as candidate `i`.
    pub fn class_of(&self, i: usize) -> usize {
        let same_as = self.candidates[i].same_as;
        same_as.and_then(|name| self.index(name)).unwrap_or(i)
    }

    /// The index of a candidate.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.candidates.iter().position(|candidate| candidate.name == name)
    }

    /// Asks it.
    ///
    /// # Errors
    /// If the dump is damaged, or does not belong to the model.
    pub fn ask(&'static self, subject: &Subject<'_>) -> Result<Answer, AskError> {
        let sites = subject.sites();
        let looked = sites.par_iter().map(|site| (self.look)(site)).collect();
        let mut answer = asking::sort(self, looked)?;
        asking::diagnose(self, subject, &mut answer)?;
        answer.tokens = answer.steps().map(|step| subject.tokens_of(step)).sum();
        answer.findings = (self.also)(subject)?;
        Ok(answer)
    }
}

/// Every question, in the order of the forward pass; `tests/registries.rs` compares this table with the folder.
pub const QUESTIONS: &[&Question] = &[
    // the fold
    &embedding_inverse_order::QUESTION,
    &fold_order::QUESTION,
    &fold_block::QUESTION,
    &fold_scale::QUESTION,
    &alpha_beta_input::QUESTION,
    &ssm_out_permutation::QUESTION,
    &attn_output_permutation::QUESTION,
    // attention
    &qgate_split::QUESTION,
    &qk_norm::QUESTION,
    &rope_pairing::QUESTION,
    &rope_dims::QUESTION,
    &rope_base::QUESTION,
    &rope_sections::QUESTION,
    &attn_head_map::QUESTION,
    &kv_type::QUESTION,
    &attn_scale::QUESTION,
    &attn_gate::QUESTION,
    // the delta net
    &conv_window::QUESTION,
    &conv_kernel_order::QUESTION,
    &conv_activation::QUESTION,
    &qkv_split_order::QUESTION,
    &qk_l2_norm::QUESTION,
    &gates::QUESTION,
    &decay_form::QUESTION,
    &gdn_head_map::QUESTION,
    &update_rule::QUESTION,
    &update_order::QUESTION,
    &state_layout::QUESTION,
    &gdn_scale::QUESTION,
    &gdn_route::QUESTION,
    &ssm_norm_scope::QUESTION,
    &ssm_norm_eps::QUESTION,
    &ssm_norm_gate::QUESTION,
    // everywhere
    &view_layout::QUESTION,
    &rms_norm_eps_place::QUESTION,
    &rms_norm_weight::QUESTION,
    &swiglu_order::QUESTION,
    // weights and activations
    &activation_rounding::QUESTION,
    &code_map::QUESTION,
    &code_order::QUESTION,
];

/// The question of a name.
///
/// # Errors
/// If there is none.
pub fn question(name: &str) -> Result<&'static Question, AskError> {
    let found = QUESTIONS.iter().find(|question| question.name == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = QUESTIONS.iter().map(|question| question.name).collect();
        AskError::Unknown { got: name.to_owned(), expected: names.join(", ") }
    })
}
