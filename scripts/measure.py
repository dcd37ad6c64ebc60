#!/usr/bin/env python3
"""Measures what README.md says about accuracy, time and memory: runs `lockstep check` on every folded case and prints one table.

usage: measure.py            accuracy, time and peak memory of each
       measure.py --length   time and memory of the engine alone on 64 layers, at several lengths
       measure.py --fresh    how long the README's first command takes from a clean clone, with nothing downloaded before

The research notes that this project began with report, for another engine and one token of the 27B model on a GPU, a worst
per-layer cosine of 0.99997288 and a logit cosine of 0.99999318 against llama.cpp; the last columns are ratios to those.
LOCKSTEP names the binary; target/release/lockstep if it is not set.
"""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

try:
    import tomllib
except ImportError:  # before Python 3.11; pip brings the same parser along
    from pip._vendor import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("LOCKSTEP", str(ROOT / "target" / "release" / "lockstep"))
NOTES_LAYER = 1 - 0.99997288
NOTES_LOGITS = 1 - 0.99999318


def is_folded(path):
    """Whether a case is for `check`: in front of other quantised weights llama.cpp rounds, and the engine does not."""
    return tomllib.loads(path.read_text())["model"].get("type") in ("pq2_0", "ptq1_0")


def is_whole(path):
    """Whether the dumps are committed and run to the logits."""
    dumps = tomllib.loads(path.read_text())["dump"]
    return all(dump.get("committed", True) and "--until" not in dump["command"] for dump in dumps)


def check(case, cache):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "result.json")
        started = time.monotonic()
        command = [BINARY, "check", str(case), "--json", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LOCKSTEP_CACHE": cache})
        seconds = time.monotonic() - started
        if done.returncode != 0:
            sys.exit(f"{case}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(out.read_text()), seconds


def ratio(reference, ours):
    return f"{reference / ours:,.0f} x" if ours > 0 else "equal"


def fresh():
    """A clean clone, an empty registry cache, and no model built yet."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", str(ROOT), f"{folder}/lockstep"], check=True)
        env = {**os.environ, "CARGO_HOME": f"{folder}/cargo", "LOCKSTEP_CACHE": f"{folder}/cache"}
        started = time.monotonic()
        command = ["cargo", "run", "--release", "--", "check", "reference-dumps/mini-bonsai"]
        subprocess.run(command, cwd=f"{folder}/lockstep", env=env, check=True, capture_output=True)
        print(f"from a clean clone to the verdict: {time.monotonic() - started:.0f} s, {os.cpu_count()} cores")


def run_alone(model, tokens, ubatch):
    """Seconds and peak memory in MB of the engine alone."""
    ids = ",".join(str(i * 7919 % 512) for i in range(tokens))
    command = [BINARY, "run", model, "--tokens", ids, "--ubatch", str(ubatch)]
    started = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command[:3])}: exit {os.waitstatus_to_exitcode(status)}")
    return time.monotonic() - started, usage.ru_maxrss / 1024


def length():
    """64 layers at several lengths: what a sequence costs, and that memory grows by its keys and values only."""
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/mini.gguf"
        subprocess.run([BINARY, "synth", "mini-bonsai", "--out", model], check=True, capture_output=True)
        print(f"{'tokens':>8}{'ubatch':>8}{'time':>8}{'memory':>10}")
        for tokens, ubatch in [(130, 130), (130, 1), (130, 32), (520, 32), (1040, 32)]:
            seconds, memory = run_alone(model, tokens, ubatch)
            print(f"{tokens:>8,}{ubatch:>8}{seconds:>7.1f}s{memory:>7.0f} MB")
    print(f"mini-bonsai, 64 layers, engine cpu f32, {os.cpu_count()} cores; keys and values take 8 kB a token (16 layers x 2 x 64 x f32)")


def main():
    cases = sorted(path.parent for path in (ROOT / "reference-dumps").glob("*/case.toml") if is_folded(path) and is_whole(path))
    print(f"{'case':14}{'compared':>10}{'1 - cos l_out':>15}{'logits':>10}{'rel L2, any':>13}{'time':>8}  nearer than the notes")
    with tempfile.TemporaryDirectory() as cache:
        for case in cases:
            result, seconds = check(case, cache)
            tensors = result["tensors"]
            layer = max(t["one_minus_cosine"] for t in tensors if t["name"].startswith("l_out-"))
            logits = max(t["one_minus_cosine"] for t in tensors if t["name"] == "result_output")
            worst = max(t["relative_l2"] for t in tensors)
            compared = result["summary"]["compared"]
            nearer = f"{ratio(NOTES_LAYER, layer)} (layers), {ratio(NOTES_LOGITS, logits)} (logits)"
            print(f"{case.name:14}{compared:>10,}{layer:>15.1e}{logits:>10.1e}{worst:>13.1e}{seconds:>7.1f}s  {nearer}")
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"peak memory {memory:.0f} MB, model building included; {os.cpu_count()} cores")


if __name__ == "__main__":
    {"--fresh": fresh, "--length": length}.get(" ".join(sys.argv[1:]), main)()
