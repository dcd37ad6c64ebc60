"""What scripts/zoo.sh does once lockstep is built: models, dumps and replays, each kept until something that it depends on changes."""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ["LOCKSTEP_CACHE"])
LOCKSTEP = pathlib.Path(os.environ["LOCKSTEP"]).resolve()
ZOO = CACHE / "zoo"
# Within the vocabulary of every model.
TOKENS, SCHEDULE = "3,77,120,5,64,99,18", "5,1,1"


class Failed(Exception):
    """A program did not do what it should; the message says which, and its last words."""


def options():
    parser = argparse.ArgumentParser(prog="scripts/zoo.sh", usage="see scripts/zoo.sh --help", add_help=False)
    add = parser.add_argument
    add("--arch", action="append", default=[])
    add("--seed", action="append", type=int)
    add("--stdev", action="append", type=float)
    add("--type", action="append", choices=["f32", "q8_0", "q4_K"], dest="types")
    add("--flash-attn", action="append", choices=["off", "on"])
    add("--build", default="usual", choices=["usual", "scalar"])
    add("--arithmetic", default="exact", choices=["exact", "ggml"])
    add("--jobs", type=int, default=os.cpu_count())
    add("--keep", action="store_true")
    add("--out", type=pathlib.Path)
    chosen = parser.parse_args()
    chosen.seed = chosen.seed or [1]
    chosen.stdev = chosen.stdev or [0.1]
    chosen.types = chosen.types or ["f32"]
    chosen.flash_attn = chosen.flash_attn or ["off", "on"]
    return chosen


def call(*words, allowed=(0,)):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace")
    if done.returncode not in allowed:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise Failed(f"{pathlib.Path(words[0]).name} ended with {done.returncode}: {last}")


def built(program, build="usual"):
    words = [] if build == "usual" else ["--build", build]
    if subprocess.run([HERE.parent / "build-llama.sh", *words, program]).returncode:
        sys.exit(2)
    return CACHE / "bin" / (program if build == "usual" else f"{program}-{build}")


def key(*parts):
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part.read_bytes() if isinstance(part, pathlib.Path) else repr(part).encode())
    return sha.hexdigest()[:16]


def put(write, out):
    """Has a file or folder written under another name, and renames it: what is there is whole."""
    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="tmp.", dir=out.parent))
    try:
        write(scratch / out.name)
        (scratch / out.name).rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def models(program, seed, stdev):
    """The folder of all architectures, with weights of this seed."""
    folder = ZOO / f"models-{key(program)}-{seed}-{stdev}"
    if not folder.exists():
        print(f"zoo: writing models of seed {seed}, standard deviation {stdev}", file=sys.stderr)

        def write(out):
            out.mkdir()
            call(program, "--out", out, "--seed", seed, "--stdev", stdev)

        put(write, folder)
    return folder


class Run:
    """One model under one setting."""

    def __init__(self, chosen, programs, model, ty, flash_attn):
        self.chosen, self.programs, self.model, self.ty, self.flash_attn = chosen, programs, model, ty, flash_attn
        self.name = model.stem
        setting = (model.parent.name, self.name, ty, flash_attn, chosen.build, chosen.arithmetic, TOKENS, SCHEDULE)
        self.result = ZOO / "results" / key(*programs["keys"], *setting)

    def label(self):
        return f"{self.name} {self.ty} flash attention {self.flash_attn}"

    def __call__(self):
        if self.result.exists():
            return json.loads(self.result.read_text())
        scratch = pathlib.Path(tempfile.mkdtemp(prefix="tmp.", dir=ZOO))
        try:
            model, dump = self.model, scratch / f"{self.name}.npz"
            if self.ty != "f32":
                model = scratch / f"{self.name}.gguf"
                call(self.programs["models"], "--quantize", self.ty, self.model, model)
            call(
                *(self.programs["dump"], "-m", model, "-t", TOKENS, "--schedule", SCHEDULE),
                *("--flash-attn", self.flash_attn, "--out", dump),
            )
            report = scratch / "report.json"
            call(
                *(LOCKSTEP, "replay", "--model", model, "--dump", dump),
                *("--arithmetic", self.chosen.arithmetic, "--json", report),
                allowed=(0, 1),
            )
            found = summary(json.loads(report.read_text()))
            if self.chosen.keep:
                kept = ZOO / "kept" / f"{self.model.parent.name}-{self.ty}-{self.flash_attn}-{self.chosen.build}"
                kept.mkdir(parents=True, exist_ok=True)
                for file in {model, dump} - {self.model}:
                    shutil.move(file, kept / file.name)
            put(lambda out: out.write_text(json.dumps(found)), self.result)
            return found
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def summary(report):
    """What a replay found, by operator."""
    operators = {}
    for node in report["nodes"]:
        own = operators.setdefault(node["op"], {"nodes": 0, "within": 0, "worst_share": 0.0, "roundings": [], "reasons": {}})
        own["nodes"] += 1
        if node["outcome"] == "within":
            own["within"] += 1
            own["worst_share"] = max(own["worst_share"], node["share"])
        else:
            why = node["reason"] or f"{node['outcome']}: {node['name']} (step {node['step']}), share {node['share']}"
            own["reasons"][why] = own["reasons"].get(why, 0) + 1
        if node["rounding"] not in (None, "none", *own["roundings"]):
            own["roundings"].append(node["rounding"])
    return operators


def table(results):
    """Rows by operator over all runs."""
    rows = collections.defaultdict(lambda: {"archs": set(), "nodes": 0, "within": 0, "worst_share": 0.0, "roundings": set()})
    for run, operators in results:
        for op, own in operators.items():
            row = rows[op]
            row["archs"].add(run.name)
            row["nodes"] += own["nodes"]
            row["within"] += own["within"]
            row["worst_share"] = max(row["worst_share"], own["worst_share"])
            row["roundings"].update(own["roundings"])
    return dict(sorted(rows.items(), key=lambda item: (-len(item[1]["archs"]), item[0])))


def show(rows, arithmetic):
    head = ["operator", "models", "nodes", "equal" if arithmetic == "ggml" else "within", "worst share", "rounding found"]
    lines = [head]
    for op, row in rows.items():
        share = "" if arithmetic == "ggml" else f"{row['worst_share']:.2f}"
        counts = [str(len(row["archs"])), f"{row['nodes']:,}", f"{row['within']:,}"]
        lines.append([op, *counts, share, ", ".join(sorted(row["roundings"]))])
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        left, *numbers, last = line
        cells = [left.ljust(widths[0]), *(n.rjust(w) for n, w in zip(numbers, widths[1:-1])), last]
        print("  ".join(cells).rstrip())


def main():
    chosen = options()
    ZOO.mkdir(parents=True, exist_ok=True)
    programs = {"models": built("zoo-models"), "dump": built("llama-dump", chosen.build)}
    programs["keys"] = [programs["dump"], LOCKSTEP]
    runs = []
    for seed in chosen.seed:
        for stdev in chosen.stdev:
            files = sorted(models(programs["models"], seed, stdev).glob("*.gguf"))
            files = [file for file in files if not chosen.arch or any(re.search(arch, file.stem) for arch in chosen.arch)]
            settings = [(ty, flash) for ty in chosen.types for flash in chosen.flash_attn]
            runs += [Run(chosen, programs, file, *setting) for file in files for setting in settings]
    if not runs:
        sys.exit("zoo: no model has such a name (see --arch)")
    results, failed = [], []
    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        futures = {pool.submit(run): run for run in runs}
        for done, future in enumerate(concurrent.futures.as_completed(futures), 1):
            run = futures[future]
            try:
                results.append((run, future.result()))
            except Failed as error:
                failed.append(f"{run.label()}: {error}")
            if done % 32 == 0 or done == len(runs):
                print(f"zoo: {done} of {len(runs)}", file=sys.stderr)
    results.sort(key=lambda result: result[0].label())
    rows = table(results)
    show(rows, chosen.arithmetic)
    reasons = collections.defaultdict(list)
    for run, operators in results:
        for op, own in operators.items():
            for why, count in own["reasons"].items():
                reasons[op, why].append((run.label(), count))
    for (op, why), where in sorted(reasons.items()):
        print(f"not {'equal' if chosen.arithmetic == 'ggml' else 'within'}: {op}, {sum(n for _, n in where)} nodes in {len(where)} runs, first {where[0][0]}: {why}")
    for failure in sorted(failed):
        print(f"failed: {failure}")
    nodes, within = (sum(row[which] for row in rows.values()) for which in ("nodes", "within"))
    archs = len({run.name for run, _ in results})
    print(f"{archs} models in {len(results)} runs: {within:,} of {nodes:,} nodes {'equal' if chosen.arithmetic == 'ggml' else 'within'}; {len(failed)} failed")
    if chosen.out:
        found = [{"model": run.name, "type": run.ty, "flash_attn": run.flash_attn, "weights": run.model.parent.name, "operators": own} for run, own in results]
        put(lambda out: out.write_text(json.dumps(found, indent=1) + "\n"), chosen.out.resolve())
    sys.exit(2 if failed else 0 if within == nodes else 1)


main()
