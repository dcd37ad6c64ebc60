//! What was measured on a device, as Markdown tables, which a terminal shows as well.

use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::bench::{CopyRate, DecodeRow, KernelRow, Kernels, Machine, ModelRun, PrefillRow};

/// Said of every figure of the emulator.
const EMULATED: &str =
    "EMULATED: the kernels ran on the CPU. These times say nothing about a GPU; only that everything runs.";

const MARKED: usize = 2;

/// Kernels one by one; `date` is when they were measured.
pub fn bench_kernels_text(found: &Kernels, date: &str) -> String {
    let mut lines = head(&found.machine, &found.copy, date);
    let mut groups: Vec<&str> = found.rows.iter().map(|row| row.group).collect();
    groups.dedup();
    for group in groups {
        let columns = ["kernel", "sizes", "us", "least", "GB/s", "of copy rate", "TFLOP/s"];
        let mut table = table(&columns, MARKED);
        for row in found.rows.iter().filter(|row| row.group == group) {
            table.add_row(kernel(row, &found.copy));
        }
        lines.push(format!("\n### {group}\n\n{}", table.trim_fmt()));
    }
    lines.join("\n") + "\n"
}

fn kernel(row: &KernelRow, copy: &CopyRate) -> Vec<Cell> {
    let flops = row.flop_rate().map_or(String::new(), |rate| format!("{:.2}", rate / 1e12));
    let mut cells = vec![Cell::new(&row.kernel), Cell::new(&row.shape)];
    cells.extend(
        [
            format!("{:.2}", row.us),
            format!("{:.2}", row.least_us),
            format!("{:.1}", row.rate() / 1e9),
            percent(row.rate() / copy.best()),
            flops,
        ]
        .map(right),
    );
    cells
}

/// The engine with a model; `date` is when it was measured.
pub fn bench_model_text(found: &ModelRun, date: &str) -> String {
    let mut lines = head(&found.machine, &found.copy, date);
    let (ty, kv) = (found.options.ty, found.options.kv);
    lines.push(format!(
        "\nmodel: shape {}, {} layers, synthetic {ty} weights, {} of them in all\n\
         a token reads {} of weights, reads and writes {} of states, and reads {} of keys and values ({kv}) for each token before it",
        found.name,
        found.n_layer,
        bytes(found.weight_bytes),
        bytes(found.token_weight_bytes),
        bytes(found.state_bytes),
        bytes(found.kv_bytes_per_token),
    ));
    let columns = [
        "tokens before",
        "recorded",
        "tokens/s",
        "ms/token",
        "launches/token",
        "GB/token",
        "of byte roofline",
    ];
    let mut decode = table(&columns, 0);
    for row in &found.decode {
        decode.add_row(decode_cells(row, &found.copy));
    }
    lines.push(format!("\n### single tokens\n\n{}", decode.trim_fmt()));
    let mut prefill = table(&["prompt", "ubatch", "tokens/s", "seconds", "launches"], 0);
    for row in &found.prefill {
        prefill.add_row(prefill_cells(row));
    }
    lines.push(format!("\n### prompts\n\n{}", prefill.trim_fmt()));
    lines.join("\n") + "\n"
}

fn decode_cells(row: &DecodeRow, copy: &CopyRate) -> Vec<Cell> {
    let cells = [
        row.n_past.to_string(),
        if row.is_recorded { "yes" } else { "no" }.to_owned(),
        format!("{:.2}", row.rate()),
        format!("{:.3}", 1e3 / row.rate()),
        row.launches.to_string(),
        format!("{:.3}", row.bytes as f64 / 1e9),
        percent(row.share(copy)),
    ];
    cells.map(right).into()
}

fn prefill_cells(row: &PrefillRow) -> Vec<Cell> {
    let (rate, seconds) = (format!("{:.1}", row.rate()), format!("{:.3}", row.seconds));
    [row.n_tokens.to_string(), row.n_ubatch.to_string(), rate, seconds, row.launches.to_string()]
        .map(right)
        .into()
}

fn head(machine: &Machine, copy: &CopyRate, date: &str) -> Vec<String> {
    let mut lines = Vec::new();
    if machine.is_emulated {
        lines.push(format!("**{EMULATED}**\n"));
    }
    lines.push(format!(
        "device {}, {} multiprocessors, {} of memory; CUDA {} driver; {date}",
        machine.device,
        machine.n_sm,
        bytes(machine.memory as u64),
        machine.cuda
    ));
    let rate = |rate: f64| format!("{:.1} GB/s", rate / 1e9);
    lines.push(format!(
        "copy rate {} (read and written; {} from device memory to device memory: by the driver {}, by a kernel {})",
        rate(copy.best()),
        bytes(copy.bytes as u64),
        rate(copy.driver),
        rate(copy.kernel)
    ));
    lines
}

fn table(columns: &[&str], words: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(columns.iter().enumerate().map(|(i, name)| {
        let side = if i < words { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(name).set_alignment(side)
    }));
    table
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Decimal, as memory is sold.
fn bytes(n: u64) -> String {
    let n = n as f64;
    match n {
        _ if n >= 1e9 => format!("{:.2} GB", n / 1e9),
        _ if n >= 1e6 => format!("{:.2} MB", n / 1e6),
        _ => format!("{:.1} kB", n / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(is_emulated: bool) -> Machine {
        Machine { device: "d".into(), cuda: "13.0".into(), memory: 1 << 30, n_sm: 2, is_emulated }
    }

    fn kernels(is_emulated: bool) -> Kernels {
        let row = KernelRow {
            group: "g",
            kernel: "k".into(),
            shape: "s".into(),
            us: 10.0,
            least_us: 9.0,
            launches: 5,
            copies: 2,
            bytes: 1_000_000,
            flops: Some(2_000_000),
        };
        let copy = CopyRate { bytes: 1 << 20, driver: 2e11, kernel: 1e11 };
        Kernels { machine: machine(is_emulated), copy, rows: vec![row] }
    }

    #[test]
    fn rates_are_bytes_and_operations_by_time_and_shares_are_of_the_better_copy() {
        let text = bench_kernels_text(&kernels(false), "then");
        let row = text.lines().last().unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells, ["k", "s", "10.00", "9.00", "100.0", "50.0 %", "0.20"]);
        assert!(!text.contains("EMULATED"));
    }

    #[test]
    fn figures_of_the_emulator_are_called_so() {
        assert!(bench_kernels_text(&kernels(true), "then").starts_with("**EMULATED"));
    }
}
