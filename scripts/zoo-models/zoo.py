"""What scripts/zoo.sh does once lockstep is built."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import sys
import time

from found import by_model, by_operator, reasons, show
from runs import HERE, ZOO, Failed, Programs, Refused, Run, clear_abandoned, put

MEASURED = HERE.parent.parent / "docs" / "measured" / "zoo.json"

# Together they have every operator of the zoo, which is checked.
DOZEN = (
    "deepseek4-moe glm5-next-moe gpt-oss-moe grok-moe kimi-k3-moe llama4-moe minimax-m3-moe nemotron_h_moe-dense qwen35moe-moe "
    "qwen4exp-moe smallthinker-moe starcoder2-dense"
).split()

# What docs/zoo.md tells of: seeds, standard deviations, types, build and arithmetic, each with flash attention off and on.
WHOLE = {
    "exact": ([1, 2, 3], [0.1, 0.5], ["f32"], "usual", "exact"),
    "quantised": ([1], [0.1], ["q8_0", "q4_K"], "usual", "exact"),
    "scalar bits": ([1], [0.1], ["f32", "q8_0", "q4_K"], "scalar", "ggml"),
    "usual bits": ([1], [0.1], ["f32", "q8_0", "q4_K"], "usual", "ggml"),
}


def options():
    parser = argparse.ArgumentParser(prog="scripts/zoo.sh", usage="see scripts/zoo.sh --help", add_help=False)
    add = parser.add_argument
    add("--arch", action="append", default=[])
    add("--dozen", action="store_true")
    add("--whole", action="store_true")
    add("--seed", action="append", type=int)
    add("--stdev", action="append", type=float)
    add("--type", action="append", choices=["f32", "q8_0", "q4_K"], dest="types")
    add("--flash-attn", action="append", choices=["off", "on"])
    add("--build", choices=["usual", "scalar", "avx512"])
    add("--arithmetic", choices=["exact", "ggml"])
    add("--prompt", type=int)
    add("--jobs", type=int, default=os.cpu_count())
    add("--keep", type=lambda folder: pathlib.Path(folder).resolve())
    add("--out", type=pathlib.Path)
    chosen = parser.parse_args()
    if chosen.whole and any([chosen.arch, chosen.dozen, chosen.seed, chosen.stdev, chosen.types, chosen.flash_attn, chosen.build, chosen.arithmetic, chosen.prompt]):
        parser.error("--whole has its own seeds, types, builds and architectures: all of them")
    if chosen.prompt is not None and chosen.prompt < 1:
        parser.error("--prompt takes 1 or more")
    if chosen.dozen:
        chosen.arch += [f"^{name}$" for name in DOZEN]
    return chosen


def wanted(chosen):
    """The sets of runs, each with a name."""
    if chosen.whole:
        return WHOLE
    own = (chosen.seed or [1], chosen.stdev or [0.1], chosen.types or ["f32"], chosen.build or "usual", chosen.arithmetic or "exact")
    return {"own": own}


def planned(chosen, programs, pool, sets):
    """The runs of each set."""
    weights = sorted({(seed, stdev) for seeds, stdevs, *_ in sets.values() for seed in seeds for stdev in stdevs})
    folders = dict(zip(weights, pool.map(lambda own: programs.weights(*own), weights)))
    runs = {}
    for name, (seeds, stdevs, types, build, arithmetic) in sets.items():
        files = [file for seed in seeds for stdev in stdevs for file in sorted(folders[seed, stdev].glob("*.gguf"))]
        files = [file for file in files if not chosen.arch or any(re.search(arch, file.stem) for arch in chosen.arch)]
        settings = [(ty, flash, build, arithmetic, 5 if chosen.prompt is None else chosen.prompt, chosen.keep) for ty in types for flash in chosen.flash_attn or ["off", "on"]]
        runs[name] = [Run(programs, file, *setting) for file in files for setting in settings]
    return runs


def done(runs, pool):
    """What each run found, what llama.cpp refused, and what failed."""
    results, refused, failed = [], [], []
    futures = {pool.submit(run): run for run in runs}
    try:
        for count, future in enumerate(concurrent.futures.as_completed(futures), 1):
            run = futures[future]
            try:
                results.append((run, future.result()))
            except Refused as error:
                refused.append((run.name, run.ty, str(error)))
            except Failed as error:
                failed.append(f"{run.label()}: {error}")
            if count % 64 == 0 or count == len(runs):
                print(f"zoo: {count} of {len(runs)}", file=sys.stderr)
    except KeyboardInterrupt:
        pool.shutdown(cancel_futures=True)
        raise
    results.sort(key=lambda result: (result[0].label(), result[0].weights))
    return results, sorted(set(refused)), sorted(failed)


def told(results, refused, failed, word):
    """Prints what was found; whether every node passed and nothing failed."""
    rows = by_operator(results)
    show(rows, word)
    for line in reasons(results, word):
        print(line)
    for name, ty, error in refused:
        print(f"llama.cpp refuses: {name} {ty}: {error}")
    for failure in failed:
        print(f"failed: {failure}")
    nodes, passed, zero = (sum(row[field] for row in rows.values()) for field in ("nodes", "within", "zero"))
    models = len({run.name for run, _ in results})
    print(f"{models} models in {len(results)} runs: {passed:,} of {nodes:,} nodes {word}; {zero:,} all zero, which shows nothing; {len(failed)} failed")
    return passed == nodes > zero and not failed


def main():
    chosen = options()
    begun = time.monotonic()
    ZOO.mkdir(parents=True, exist_ok=True)
    clear_abandoned()
    sets = wanted(chosen)
    programs = Programs({build for *_, build, _ in sets.values()})
    measured, is_pass, any_failed = {"sets": {}}, True, False
    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        plan = planned(chosen, programs, pool, sets)
        if not any(plan.values()):
            raise Failed("no model has such a name (see --arch)")
        for name, runs in plan.items():
            results, refused, failed = done(runs, pool)
            word = "equal" if sets[name][-1] == "ggml" else "within"
            if len(sets) > 1:
                print(f"\n{name}: seeds {sets[name][0]}, standard deviations {sets[name][1]}, weights {sets[name][2]}, {sets[name][3]} build")
            is_pass &= told(results, refused, failed, word)
            any_failed |= bool(failed)
            measured["sets"][name] = {"runs": len(results), "refused": refused, "models": by_model(results)}
    minutes, seconds = divmod(round(time.monotonic() - begun), 60)
    print(f"{minutes} min {seconds} s, {chosen.jobs} at once", file=sys.stderr)
    if chosen.dozen:
        is_pass &= has_every_operator(measured["sets"]["own"]["models"])
    if chosen.out:
        put(lambda out: out.write_text(json.dumps(measured, separators=(",", ":")) + "\n"), chosen.out.resolve())
    if chosen.whole and is_pass:
        put(lambda out: out.write_text(json.dumps(measured, separators=(",", ":")) + "\n"), MEASURED)
        print("docs/measured/zoo.json is written: scripts/zoo-page.py --write takes it into docs/zoo.md")
    sys.exit(2 if any_failed else 0 if is_pass else 1)


def has_every_operator(models):
    """Whether a dozen models have every operator that the zoo was found to have."""
    whole = json.loads(MEASURED.read_text())["sets"]["exact"]["models"]
    operators = [{op for own in each.values() for op in own} for each in (whole, models)]
    for op in sorted(operators[0] - operators[1]):
        print(f"not in the dozen: {op}; choose a model that has it (DOZEN in scripts/zoo-models/zoo.py)")
    return operators[0] <= operators[1]


try:
    main()
except (Failed, OSError) as error:
    print(f"zoo: {error}", file=sys.stderr)
    sys.exit(2)
except KeyboardInterrupt:
    print("zoo: stopped; what was replayed is kept, and the same command goes on from there", file=sys.stderr)
    sys.exit(130)
