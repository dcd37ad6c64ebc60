//! The lines above the table of a check: what was run, against what, and what was left out.

use super::conventions::ByHand;
use crate::dump::Dump;
use crate::engine::Engine;
use crate::harness::{self, Check, stale_rollbacks};
use crate::model::UNFOLDED_FROM;
use crate::model::{LayerKind, Model};
use crate::report::{Step, StepToken};

/// The header of one dump's report.
pub(super) fn header(
    name: &str,
    model: &Model,
    dump: &Dump,
    engine: &dyn Engine,
    by_hand: &ByHand<'_>,
    check: &Check,
) -> Vec<String> {
    let run = &dump.manifest().run;
    let mut header =
        vec![format!("{}, engine {}", model_line(name, model), engine.name()), reference_line(dump)];
    header.extend(engine.notes());
    header.extend(by_hand.words(&harness::rules(dump)));
    if check.not_captured > 0 {
        header.push(format!(
            "not in this dump, and not counted: {} named tensors that its filters left out",
            check.not_captured
        ));
    }
    if run.flash_attn {
        header.push(
            "note: the reference ran flash attention, which keeps its sums in f16; the engine has no such operator (`llama-dump \
             --flash-attn off`)"
                .to_owned(),
        );
    }
    for step in stale_rollbacks(run) {
        header.push(format!(
            "note: in front of step {step} tokens were taken back beyond the last ubatch; llama.cpp goes on from a wrong recurrent state \
             there (docs/sequences.md)"
        ));
    }
    let not_judged: Vec<String> =
        check.not_judged.iter().map(|(reason, n)| format!("{n} ({reason})")).collect();
    if !not_judged.is_empty() {
        header.push(format!("compared, but not judged alone: {}", not_judged.join(", ")));
    }
    header.extend(model.notes().iter().map(|note| format!("note: {note}")));
    header
}

/// What was looked at: the name, and what the model is.
pub(super) fn model_line(name: &str, model: &Model) -> String {
    let h = model.hparams();
    let weights = model.gguf().tensor("blk.0.ffn_up.weight").map_or("", |t| t.info.ty.name());
    let folded = if model.fold().is_some() { " folded" } else { "" };
    format!(
        "{name}   qwen35 {} layers ({} delta, {} attention), {weights}{folded}",
        h.n_layer,
        h.count(LayerKind::DeltaNet),
        h.count(LayerKind::Attention),
    )
}

/// Who computed the reference, and with which settings.
pub(super) fn reference_line(dump: &Dump) -> String {
    let manifest = dump.manifest();
    let (producer, run) = (&manifest.producer, &manifest.run);
    let twin = if manifest.model.metadata.contains_key(UNFOLDED_FROM) { ", unfolded twin" } else { "" };
    let threads =
        if run.n_threads == 1 { "1 thread".to_owned() } else { format!("{} threads", run.n_threads) };
    format!(
        "reference: {} {} {}{twin}, {} K, {} V, flash attention {}, {threads}; tokens {}",
        producer.name,
        producer.commit,
        producer.backend,
        run.type_k,
        run.type_v,
        if run.flash_attn { "on" } else { "off" },
        run.schedule.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + "),
    )
}

/// What each step of a dump evaluated.
pub(super) fn steps(dump: &Dump) -> Vec<Step> {
    let ubatches = dump.manifest().run.ubatches.iter();
    ubatches
        .map(|ubatch| {
            let places = ubatch.positions.iter().zip(&ubatch.seq_ids).zip(&ubatch.outputs);
            let tokens = ubatch.tokens.iter().zip(places);
            let token = |(&id, ((&position, seq_ids), &output)): (&i32, ((&i32, &Vec<i32>), &u8))| {
                StepToken { id, position, seq_ids: seq_ids.clone(), is_output: output != 0 }
            };
            Step { step: ubatch.step, tokens: tokens.map(token).collect() }
        })
        .collect()
}
