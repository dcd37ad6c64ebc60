//! The tables of `kernels/README.md`: what is in which file, and what each kernel moves and computes.

use std::fmt::Write as _;

use crate::engine::gpu::cost::{MODELS, Model, example};
use crate::engine::gpu::{Checked, contract};

/// Both tables; `on` is the place of the architecture whose registers are shown.
pub(super) fn kernels_markdown(checked: &[Checked], archs: &[String], on: usize) -> String {
    let mut out = format!(
        "| file, launcher | computes | oracle | kernels | registers on {}, of |\n| --- | --- | --- | ---: | ---: |\n",
        archs[on]
    );
    let mut files: Vec<&str> = checked.iter().map(|of| of.file).collect();
    files.dedup();
    for file in files {
        let of_file: Vec<&Checked> = checked.iter().filter(|of| of.file == file).collect();
        let registers = || of_file.iter().filter_map(|of| of.on[on].as_ref()).map(|on| on.registers);
        let range = match (registers().min(), registers().max()) {
            (Some(least), Some(most)) if least < most => format!("{least} .. {most}"),
            (Some(one), _) => one.to_string(),
            (None, _) => "-".to_owned(),
        };
        let stem = file.trim_end_matches(".cu");
        let (computes, oracle) = contract(file).unwrap_or_default();
        writeln!(
            out,
            "| [{stem}]({file}), [rs](../src/engine/gpu/launch/{stem}.rs) | {} | {} | {} | {range}, {} |",
            cell(&computes),
            cell(&oracle),
            of_file.len(),
            of_file[0].limit
        )
        .expect("a string takes it");
    }
    out +=
        "\n| kernel | element | bytes read | bytes written | operations | per byte | accessed | because |\n";
    out += "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |\n";
    MODELS.iter().for_each(|model| out += &row(model));
    out
}

/// A model at the sizes of its example, for each of its elements.
fn row(model: &Model) -> String {
    let sizes = example(model);
    let (cost, elements) = ((model.cost)(&sizes), (model.elements)(&sizes) as f64);
    let each = |n: usize| short(n as f64 / elements);
    let again = match (model.again)(&sizes) {
        1 => "once".to_owned(),
        most => format!("<= {most}"),
    };
    format!(
        "| {} | {} | {} | {} | {} | {} | {again} | {} |\n",
        cell(model.kernel),
        model.element,
        each(cost.bytes_read),
        each(cost.bytes_written),
        each(cost.operations),
        short(cost.intensity()),
        model.why
    )
}

/// Three digits, without zeros at the end.
fn short(x: f64) -> String {
    let decimals = if x < 10.0 {
        2
    } else if x < 100.0 {
        1
    } else {
        0
    };
    let text = format!("{x:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Text that has no meaning of its own in a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::gpu::cost::model;

    #[test]
    fn numbers_of_three_digits() {
        assert_eq!(
            [0.0, 0.126, 4.0, 12.34, 100.0, 6145.0].map(short),
            ["0", "0.13", "4", "12.3", "100", "6145"]
        );
    }

    #[test]
    fn a_model_is_a_row() {
        assert_eq!(row(model("add_f32").unwrap()), "| add_f32 | value | 8 | 4 | 1 | 0.08 | once |  |\n");
        assert!(row(model("kq_f16").unwrap()).starts_with("| kq_\\* | score | "));
    }
}
