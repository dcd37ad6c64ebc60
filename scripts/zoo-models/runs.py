"""The programs of the zoo, its models, and one run: a model dumped and replayed under one setting, kept until something that it
depends on changes."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ["LOCKSTEP_CACHE"])
LOCKSTEP = pathlib.Path(os.environ["LOCKSTEP"]).resolve()
ZOO = CACHE / "zoo"
# Tokens behind the prompt, one by one.
DECODED = 2

# What llama.cpp b11434 itself does not run: architecture, types of the weights, and a part of its message.
REFUSED = {
    "qwen4exp-moe": (("q8_0", "q4_K"), "binary_op: unsupported types"),
}


class Failed(Exception):
    """A program did not do what it should; the message says which, and its last words."""


class Refused(Exception):
    """llama.cpp does not run this, and is known not to."""


def call(*words, allowed=(0,)):
    quiet = {**os.environ, "GGML_NO_BACKTRACE": "1"}
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace", env=quiet)
    if done.returncode not in allowed:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        # Of a source file its name is enough, and says the same on every machine.
        last = re.sub(r"\S*/([\w.-]+:\d+)", r"\1", last)
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
        if out.is_dir():
            shutil.rmtree(out)
        (scratch / out.name).rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def clear_abandoned():
    """Removes what a run that was killed left: scratch folders that nothing was written to for a day."""
    for scratch in ZOO.glob("tmp.*"):
        if time.time() - scratch.stat().st_mtime > 24 * 60 * 60:
            shutil.rmtree(scratch, ignore_errors=True)


class Programs:
    """The models' writer, the dumpers and lockstep, with what tells one version from another."""

    def __init__(self, builds):
        self.models = built("zoo-models")
        self.models_key = key(self.models)
        self.dumps = {build: built("llama-dump", build) for build in builds}
        lockstep = key(LOCKSTEP)
        self.keys = {build: (key(dump), lockstep) for build, dump in self.dumps.items()}

    def weights(self, seed, stdev):
        """The folder of all architectures, with weights of this seed and standard deviation."""
        folder = ZOO / f"models-{self.models_key}-{seed}-{stdev}"
        if not folder.exists():
            print(f"zoo: writing models of seed {seed}, standard deviation {stdev}", file=sys.stderr)

            def write(out):
                out.mkdir()
                call(self.models, "--out", out, "--seed", seed, "--stdev", stdev)

            put(write, folder)
        return folder


def tokens(n):
    """So many tokens, in no order, of the vocabulary that every model has."""
    return [(3 + 75 * i) % 128 for i in range(n)]


class Run:
    """One model under one setting."""

    def __init__(self, programs, model, ty, flash_attn, build, arithmetic, prompt, keep):
        self.programs, self.model, self.ty, self.flash_attn = programs, model, ty, flash_attn
        self.build, self.arithmetic = build, arithmetic
        self.tokens = ",".join(map(str, tokens(prompt + DECODED)))
        self.schedule = ",".join(map(str, [prompt, *[1] * DECODED]))
        self.name, self.weights = model.stem, model.parent.name
        setting = (self.weights, self.name, ty, flash_attn, build, arithmetic, self.tokens, self.schedule)
        self.result = ZOO / "results" / key(*programs.keys[build], *setting)
        self.folder = keep / f"{self.weights}-{ty}-{flash_attn}-{build}" if keep else None

    def label(self):
        return f"{self.name} {self.ty} flash attention {self.flash_attn}"

    def __call__(self):
        """What the replay found, by operator."""
        # What is to be kept is made anew: what lies there may be of another dumper or another prompt.
        if self.result.exists() and not self.folder:
            return json.loads(self.result.read_text())
        scratch = pathlib.Path(tempfile.mkdtemp(prefix="tmp.", dir=ZOO))
        try:
            model, dump = self.dumped(scratch)
            report = scratch / "report.json"
            call(
                *(LOCKSTEP, "replay", "--model", model, "--dump", dump),
                *("--arithmetic", self.arithmetic, "--json", report),
                allowed=(0, 1),
            )
            found = summary(json.loads(report.read_text()))
            if self.folder:
                self.folder.mkdir(parents=True, exist_ok=True)
                put(lambda out: shutil.copyfile(model, out), self.folder / model.name)
                put(lambda out: shutil.move(dump, out), self.folder / dump.name)
            put(lambda out: out.write_text(json.dumps(found)), self.result)
            return found
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def dumped(self, scratch):
        model, dump = self.model, scratch / f"{self.name}.npz"
        if self.ty != "f32":
            model = scratch / f"{self.name}.gguf"
            call(self.programs.models, "--quantize", self.ty, self.model, model)
        types, message = REFUSED.get(self.name, ((), ""))
        try:
            call(
                *(self.programs.dumps[self.build], "-m", model, "-t", self.tokens, "--schedule", self.schedule),
                *("--flash-attn", self.flash_attn, "--out", dump),
            )
        except Failed as error:
            raise Refused(str(error)) if self.ty in types and message in str(error) else error
        if self.ty in types:
            raise Failed("llama.cpp runs this now: take it out of REFUSED in scripts/zoo-models/runs.py")
        return model, dump


def summary(report):
    """What a replay found, by operator."""
    operators = {}
    for node in report["nodes"]:
        own = operators.setdefault(node["op"], {"nodes": 0, "within": 0, "zero": 0, "ties": 0, "worst_share": 0.0, "roundings": [], "reasons": {}})
        own["nodes"] += 1
        if node["outcome"] == "within":
            own["within"] += 1
            own["zero"] += node["is_zero"]
            own["ties"] += node["ties"]
            own["worst_share"] = max(own["worst_share"], node["share"])
        else:
            why = node["reason"] or f"{node['outcome']}: {node['name']} (step {node['step']}), share {node['share']}"
            own["reasons"][why] = own["reasons"].get(why, 0) + 1
        if node["rounding"] not in (None, "none", *own["roundings"]):
            own["roundings"].append(node["rounding"])
    return operators
