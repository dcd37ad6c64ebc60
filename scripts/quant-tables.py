#!/usr/bin/env python3
"""Writes src/quant/tables/: the lattice points of the IQ formats, taken from the PyPI package `gguf` (0.19.0), which holds
them as ggml does, in compressed form.

usage: quant-tables.py            write the files
       quant-tables.py --check    fail if a file differs
"""

import importlib.metadata
import pathlib
import sys
import textwrap

from gguf import quants

VERSION = "0.19.0"
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "src" / "quant" / "tables"
WIDTH = 110  # rustfmt fills lines

LATTICES = [
    ("iq1", quants.IQ1_S, "IQ1_S and IQ1_M"),
    ("iq2_xxs", quants.IQ2_XXS, "IQ2_XXS"),
    ("iq2_xs", quants.IQ2_XS, "IQ2_XS"),
    ("iq2_s", quants.IQ2_S, "IQ2_S"),
    ("iq3_xxs", quants.IQ3_XXS, "IQ3_XXS"),
    ("iq3_s", quants.IQ3_S, "IQ3_S"),
]


def lines(items):
    return textwrap.fill(", ".join(items), WIDTH - 1, initial_indent="    ", subsequent_indent="    ") + ",\n"


def head(what):
    return f"//! {what} Written by `scripts/quant-tables.py`.\n"


def lattice(quant, users):
    quant.init_grid()
    points, dims = quant.grid_shape
    levels = list(quant.grid_map)
    bits = 16 // dims
    codes = [
        sum(levels.index(int(x)) << (bits * j) for j, x in enumerate(point)) for point in quant.grid.reshape(points, dims)
    ]
    return (
        head(f"The lattice of {users}: {points} points of {dims} coordinates.")
        + "\n/// What a coordinate can be.\n"
        + f"pub(in crate::quant) static LEVELS: [f32; {len(levels)}] = [{', '.join(f'{x}.0' for x in levels)}];\n"
        + f"\n/// Coordinate j of a point is the level that bits {bits} j of its code count.\n"
        + f"pub(in crate::quant) static POINTS: [u16; {points}] = [\n"
        + lines([f"0x{code:04x}" for code in codes])
        + "];\n"
    )


def nonlinear():
    return (
        head("The levels of IQ4_NL and IQ4_XS.")
        + "\n/// What a code of four bits stands for, in units of the scale.\n"
        + "pub(in crate::quant) static LEVELS: [f32; 16] = [\n"
        + lines([f"{x}.0" for x in quants.IQ4_NL.kvalues])
        + "];\n"
    )


def main():
    if (version := importlib.metadata.version("gguf")) != VERSION:
        sys.exit(f"gguf {version} is installed, {VERSION} is needed")
    files = {name: lattice(quant, users) for name, quant, users in LATTICES}
    files["iq4"] = nonlinear()
    differing = []
    for name, text in files.items():
        path = FOLDER / f"{name}.rs"
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            differing.append(path.name)
    if differing:
        sys.exit(f"differ from the package's tables: {', '.join(differing)}")


main()
