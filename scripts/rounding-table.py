#!/usr/bin/env python3
"""The README's table of activation roundings: what the error of a matrix product is with f32 activations, and with activations
rounded as llama.cpp rounded them.

usage: rounding-table.py              prints the table from docs/measured/rounding.json
       rounding-table.py --measure    measures it: makes a synthetic model of each type, dumps a run of each with llama.cpp,
                                      replays that and the real models' dumps both ways, and writes docs/measured/rounding.json

Printing needs nothing else, so that continuous integration can check the README. Measuring needs the dumper
(scripts/build-llama.sh), and the real models with their dumps (scripts/real-models.sh).
LOCKSTEP names the binary; target/release/lockstep if it is not set. LOCKSTEP_CACHE as for build-llama.sh.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEASURED = ROOT / "docs" / "measured" / "rounding.json"
BINARY = os.environ.get("LOCKSTEP", str(ROOT / "target" / "release" / "lockstep"))
CACHE = pathlib.Path(os.environ.get("LOCKSTEP_CACHE", pathlib.Path.home() / ".cache" / "lockstep"))
PRESET = "micro-bonsai"
TYPES = ["q8_0", "q4_0", "q2_0", "q1_0", "q4_K", "q6_K", "tq2_0", "tq1_0", "bf16", "f16"]
RUN = ["-t", "1,2,3,4,5,6,7,8,9", "--schedule", "7,1,1"]
REAL = {"smollm2": "SmolLM2-135M", "gemma3": "gemma-3-270m"}
U = 2.0**-24


def replay(model, dump, rounding, scratch):
    """The products with weights of the model, by type, with one rounding assumed. Exit 1 is what `none` is for."""
    out = pathlib.Path(scratch, "replay.json")
    command = [BINARY, "replay", "--model", model, "--dump", dump, "--rounding", rounding, "--json", out]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in ([0] if rounding == "auto" else [0, 1]):
        sys.exit(f"{model} --rounding {rounding}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    nodes = json.loads(out.read_text())["nodes"]
    products = {}
    for node in nodes:
        if node["op"] == "MUL_MAT" and node["outcome"] != "skipped" and node["types"] != "f32 x f32":
            products.setdefault(node["types"].split()[0], []).append(node)
    return products


def rows(name, model, dump, scratch, wanted=None):
    rounded, plain = (replay(model, dump, rounding, scratch) for rounding in ("auto", "none"))
    for ty, nodes in sorted(rounded.items()):
        if wanted in (None, ty):
            found = {}
            for node in nodes:
                found[node["rounding"]] = found.get(node["rounding"], 0) + 1
            worst = [max(node["scaled_error_u"] for node in products) * U for products in (plain[ty], nodes)]
            yield {"weights": ty, "model": name, "products": len(nodes), "roundings": found,
                   "f32_activations": float(f"{worst[0]:.2e}"), "rounded_activations": float(f"{worst[1]:.2e}")}


def measure():
    dumper = CACHE / "bin" / "llama-dump"
    for needed in [dumper, *(CACHE / "real-models" / f"{real}.{kind}" for real in REAL for kind in ("gguf", "npz"))]:
        if not needed.exists():
            sys.exit(f"{needed} is missing: run scripts/real-models.sh first")
    table = []
    with tempfile.TemporaryDirectory() as scratch:
        model, dump = (pathlib.Path(scratch, name) for name in ("model.gguf", "dump.npz"))
        for ty in TYPES:
            subprocess.run([BINARY, "synth", PRESET, "--type", ty, "--out", model], check=True, capture_output=True)
            subprocess.run([dumper, "-m", model, *RUN, "--out", dump], check=True, capture_output=True)
            table += rows(PRESET, model, dump, scratch, wanted=ty)
        for real, name in REAL.items():
            files = (CACHE / "real-models" / f"{real}.{kind}" for kind in ("gguf", "npz"))
            table += rows(name, *files, scratch)
    MEASURED.parent.mkdir(exist_ok=True)
    MEASURED.write_text(json.dumps({"llama_cpp": "b11434", "backend": "CPU, AVX2", "rows": table}, indent=1) + "\n")


def show():
    measured = json.loads(MEASURED.read_text())
    print(f"{'weights':9}{'model':14}{'products':>8}  {'rounded to':12}{'error, f32':>12}{'error, rounded':>16}")
    for row in measured["rows"]:
        found = row["roundings"]
        names = next(iter(found)) if len(found) == 1 else ", ".join(f"{name} ({n})" for name, n in found.items())
        print(f"{row['weights']:9}{row['model']:14}{row['products']:>8}  {names:12}"
              f"{row['f32_activations']:>12.1e}{row['rounded_activations']:>16.1e}")
    products = sum(row["products"] for row in measured["rows"])
    print(f"{products:,} products, llama.cpp {measured['llama_cpp']} on {measured['backend']}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--measure"]:
        measure()
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        show()
