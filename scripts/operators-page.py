#!/usr/bin/env python3
"""docs/operators.md: every operator that has an oracle, put together from what is written elsewhere.

usage: operators-page.py            prints the page
       operators-page.py --write    writes docs/operators.md
       operators-page.py --check    fails if docs/operators.md is another, or an operator lacks something

Formula, terms and additions are the module docs of src/ops/exact/, one section for each file with an oracle; in which order ggml-cpu
adds, and where it rounds, is the table of docs/arithmetic.md.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXACT = ROOT / "src" / "ops" / "exact"
PAGE = ROOT / "docs" / "operators.md"
HEAD = """# The operators that have an oracle

Written by `scripts/operators-page.py` from the docs of `src/ops/exact/` and the table of `docs/arithmetic.md`; change those.

An oracle evaluates a node in f64 from the reference's own inputs. `terms` are the sum of the absolute values of what is added to make
an element, and additions how many numbers these are: an error is judged by `8 sqrt(additions) 2^-24 terms` (`docs/judging.md`). What is
moved has terms of 0, and is equal to the bit. u is 2^-24. Extents are ggml's, dimension 0 first. What stands under *ggml-cpu* is in
which order llama.cpp adds, in which precision, and what it rounds besides: first the scalar build, then the one with AVX2
(`docs/arithmetic.md` says what the builds are, and has what holds for all operators).
"""


def doc(path):
    """The module doc, without the brackets of links to code, and with the numbers that constants stand for."""
    source, lines = path.read_text(), []
    for line in source.splitlines():
        if not line.startswith("//!"):
            break
        lines.append(line[4:])
    text = re.sub(r"\[(`[^`]+`)\](\([^)]*\))?", r"\1", "\n".join(lines)).strip()
    for name, value in re.findall(r"const (\w+): f64 = ([\d.]+);", source):
        text = re.sub(rf"(`{name}`|\b{name}\b)(?! \()", rf"\1 ({float(value):g})", text)
    return text


def oracles():
    """The files with an oracle, and the operators of each."""
    table = re.findall(r'^    \("(\w+)", &', (EXACT / "mod.rs").read_text(), re.MULTILINE)
    for name in table:
        source = (EXACT / f"{name}.rs").read_text()
        listed = re.search(r"fn ops\(&self\).*?&\[(.*?)\]", source, re.DOTALL)
        yield name, re.findall(r'"(\w+)"', listed[1])


def rows():
    """The table of docs/arithmetic.md, each row as its cells."""
    page = (ROOT / "docs" / "arithmetic.md").read_text()
    table = page.split("## The operators\n")[1].split("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def order(op, table):
    """How ggml-cpu computes an operator, a line for each of its rows."""
    for what, scalar, avx2, *besides in table:
        if re.search(rf"(?<![A-Z0-9_]){op}(?![A-Z0-9_])", what):
            rounded = besides[0].strip(" |") if besides else ""
            yield f"- {what}: {scalar}; AVX2: {avx2}" + (f"; rounds besides: {rounded}" if rounded else "")


def page():
    parts, lacking, table, shared = [HEAD], [], rows(), set()
    for name, ops in oracles():
        text = doc(EXACT / f"{name}.rs")
        parts.append(f"## {', '.join(ops)}\n\n{text}\n")
        shared |= {part for part in re.findall(r"`(\w+)`", text) if (EXACT / f"{part}.rs").exists()}
        lacking += [f"{op}: not in the doc of {name}.rs" for op in ops if not re.search(rf"\b{op}\b", text)]
        lacking += [f"{name}.rs: no terms in its doc" for _ in [0] if not re.search(r"\b[Tt]erms\b", text)]
        found = [line for op in ops for line in order(op, table)]
        lacking += [f"{op}: no row in docs/arithmetic.md" for op in ops if not list(order(op, table))]
        parts.append("*ggml-cpu*\n\n" + "\n".join(dict.fromkeys(found)) + "\n")
    parts.append("## What several of them share\n")
    parts += [f"### {part}\n\n{doc(EXACT / f'{part}.rs')}\n" for part in sorted(shared - {name for name, _ in oracles()})]
    return "\n".join(parts), lacking


def main(words):
    if words not in ([], ["--write"], ["--check"]):
        sys.exit(__doc__)
    text, lacking = page()
    if lacking:
        sys.exit("\n".join(lacking))
    if not words:
        return print(text, end="")
    if words == ["--write"]:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.exit("docs/operators.md is not what the docs of src/ops/exact/ and docs/arithmetic.md give: scripts/operators-page.py --write")


if __name__ == "__main__":
    main(sys.argv[1:])
