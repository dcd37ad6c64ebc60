#!/usr/bin/env python3
"""Writes tests/goldens/quant/: blocks of every type, and what is read from them by the PyPI package `gguf` (0.19.0), or, of
types that the package does not read, by llama.cpp's ggml-quants.c. tests/quant_goldens.rs decodes the same blocks.

usage: quant-goldens.py [--check] [--llama DIR]

  --check       write nothing, fail if a file differs
  --llama DIR   a source tree of llama.cpp (b11434), whose ggml-quants.c is compiled: writes the files of the types that the
                package does not read, and fails if ggml and the package disagree on another

<type>.bin, little endian. A unit is as many blocks as hold 256 elements.

    u32 whole, u32 sums
    whole + sums units of blocks
    f32[whole][256]    the elements of the first units
    u32[sums]          CRC-32 of the f32 elements of each other unit, which keeps the files small

<type>.encode.bin, of types that we encode by ggml's rule:

    u32 units
    f32[units][256]    values
    units of blocks

Blocks are random bytes, with these exceptions: in the first units with a sum, scales take extreme values (zero, subnormal,
greatest, of both signs; all 256 of the types with scales of eight bits), units go on until every point of a type's lattice
has been read, and units with a NaN are left out, because the package does not say which NaN it means.
"""

import argparse
import ctypes
import importlib.metadata
import pathlib
import subprocess
import sys
import tempfile
import zlib
from unittest import mock

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T, quants

VERSION = "0.19.0"
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens" / "quant"
SEED = 11434
UNIT = 256
WHOLE = 2
# Units of which only a sum is kept, at least; fewer of the types without blocks, whose units are large and all alike.
SUMS, PLAIN_SUMS = 32, 6
ENCODED = 4

EXTREMES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF]
HALVES = {  # offsets of the f16 scales in a block
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "TQ1_0": [52], "TQ2_0": [64],
    "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ4_NL": [0], "IQ4_XS": [0],
    "Q1_0": [0], "Q2_0": [0],
}
BYTES = {"MXFP4": [0], "NVFP4": [0, 1, 2, 3]}  # offsets of scales of eight bits
PLAIN = ["F32", "F16", "BF16"]
ONLY_GGML = {"Q8_K": 15, "Q1_0": 41, "Q2_0": 42}  # ids
TYPES = [*PLAIN, *HALVES, *BYTES, "IQ1_M", "Q8_K"]
ENCODABLE = ["F16", "BF16", "Q4_0", "Q8_0", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0"]
SIZES = {ty.name: sizes for ty, sizes in GGML_QUANT_SIZES.items()} | {"Q2_0": (64, 18)}


class Package:
    """The gguf package. Notes which points of a type's lattice were read."""

    def __init__(self, name):
        self.ty = T[name]
        self.cls = quants._type_traits.get(self.ty)
        if self.cls is not None:
            self.cls.init_grid()
        has_grid = self.cls is not None and self.cls.grid is not None
        self.unread = set(range(self.cls.grid_shape[0])) if has_grid else set()

    def read(self, blocks):
        """The values of `blocks`, and whether a point was read for the first time."""
        points, take = set(), np.take_along_axis

        def noting(array, indices, axis):
            if self.cls is not None and array is self.cls.grid:
                points.update(np.unique(indices).tolist())
            return take(array, indices, axis)

        with mock.patch.object(np, "take_along_axis", noting), np.errstate(all="ignore"):
            values = quants.dequantize(blocks.reshape(1, -1), self.ty).reshape(-1).astype("<f4")
        new = points & self.unread
        self.unread -= points
        return values, bool(new)

    def write(self, values):
        return quants.quantize(values, self.ty).tobytes()


class Ggml:
    """llama.cpp's own functions."""

    unread = ()

    def __init__(self, library, name):
        spelt = name.lower().replace("_k", "_K")
        self.elements, self.size = SIZES[name]
        self.dequantize = getattr(library, f"dequantize_row_{spelt}")
        self.quantize = getattr(library, f"quantize_row_{spelt}_ref", None)

    def read(self, blocks):
        blocks = np.ascontiguousarray(blocks)
        values = np.empty(blocks.size // self.size * self.elements, "<f4")
        self.dequantize(blocks.ctypes.data_as(ctypes.c_void_p), values.ctypes.data_as(ctypes.c_void_p),
                        ctypes.c_int64(values.size))
        return values, False

    def write(self, values):
        blocks = np.empty(values.size // self.elements * self.size, np.uint8)
        self.quantize(values.ctypes.data_as(ctypes.c_void_p), blocks.ctypes.data_as(ctypes.c_void_p),
                      ctypes.c_int64(values.size))
        return blocks.tobytes()


def compile_ggml(tree, scratch):
    """ggml-quants.c as a library, without products fused into sums. What it calls elsewhere in ggml is not called here."""
    ggml = pathlib.Path(tree, "ggml")
    out = pathlib.Path(scratch, "quants.so")
    elsewhere = ["ggml_abort", "ggml_row_size", "ggml_type_name", "ggml_type_size"]
    stubs = pathlib.Path(scratch, "stubs.c")
    stubs.write_text("".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in elsewhere))
    command = ["cc", "-shared", "-fPIC", "-O2", "-ffp-contract=off", f"-I{ggml / 'include'}", f"-I{ggml / 'src'}"]
    subprocess.run([*command, ggml / "src" / "ggml-quants.c", stubs, "-lm", "-o", out], check=True)
    return ctypes.CDLL(str(out))


def set_scales(name, blocks, at):
    """Puts extreme scales into `blocks` [n, type_size], which are blocks number `at` and on."""
    for i, block in enumerate(blocks, at):
        if name in HALVES and i < len(EXTREMES) ** 2:
            for k, offset in enumerate(HALVES[name]):
                # a second scale falls back by one with each round
                bits = EXTREMES[(i + k * (i // len(EXTREMES))) % len(EXTREMES)]
                block[offset : offset + 2] = [bits & 255, bits >> 8]
        elif name in BYTES:
            for k, offset in enumerate(BYTES[name]):
                block[offset] = (i * len(BYTES[name]) + k) % 256
        elif name == "IQ1_M" and i < len(EXTREMES):
            for k in range(4):  # four bits in each of four words
                block[49 + 2 * k] = block[49 + 2 * k] & 15 | (EXTREMES[i] >> (4 * k) & 15) << 4


def generator(name, *more):
    return np.random.default_rng([SEED, ONLY_GGML[name] if name in ONLY_GGML else int(T[name]), *more])


def decoding(name, reader, other):
    """The file of a type. If there is an `other` reader, it must agree."""
    rng = generator(name)
    elements, size = SIZES[name]
    per_unit = UNIT // elements
    wanted = WHOLE + (PLAIN_SUMS if name in PLAIN else SUMS)
    units, values = [], []
    at = 0
    while len(units) < wanted or reader.unread:
        blocks = rng.integers(0, 256, (per_unit, size), dtype=np.uint8)
        if name in PLAIN:  # no infinities and NaN, since few units would be free of them
            exponent = 0x7C if name == "F16" else 0x7F
            blocks[blocks[:, -1] & exponent == exponent, -1] ^= 0x40
        if len(units) >= WHOLE:
            set_scales(name, blocks, at)
            at += per_unit
        unit, new = reader.read(blocks)
        if np.isnan(unit).any():
            continue
        if other and other.read(blocks)[0].tobytes() != unit.tobytes():
            sys.exit(f"{name}: gguf and ggml read different values from {blocks.tobytes().hex()}")
        if len(units) < wanted or new:
            units.append(blocks.tobytes())
            values.append(unit.tobytes())
    sums = [zlib.crc32(unit) for unit in values[WHOLE:]]
    return b"".join([
        np.array([WHOLE, len(sums)], "<u4").tobytes(), *units, *values[:WHOLE], np.array(sums, "<u4").tobytes(),
    ])


def encoding(name, writer, other):
    """The file of a type that is encoded. If there is an `other` writer, it must agree."""
    rng = generator(name, 1)
    values = rng.standard_normal((ENCODED, UNIT)) * 10.0 ** rng.uniform(-3, 3, (ENCODED, 1))
    values[0] = rng.integers(-1, 2, UNIT) * 0.375  # ternary
    values[1] = rng.integers(-254, 255, UNIT) / 2  # ties
    values[1, :32] = 0
    values = values.astype("<f4")
    blocks = writer.write(values)
    if other and other.write(values) != blocks:
        sys.exit(f"{name}: gguf and ggml write different blocks")
    return np.array([ENCODED], "<u4").tobytes() + values.tobytes() + blocks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--llama", metavar="DIR")
    args = parser.parse_args()
    if (version := importlib.metadata.version("gguf")) != VERSION:
        sys.exit(f"gguf {version} is installed, {VERSION} is needed")
    missing = [ty.name for ty in quants._type_traits if ty.name not in TYPES]
    if missing:
        sys.exit(f"the package knows types that this script does not: {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as scratch:
        library = compile_ggml(args.llama, scratch) if args.llama else None
    files = {}
    for name in TYPES:
        ggml = Ggml(library, name) if library and name not in PLAIN else None
        package = None if name in ONLY_GGML else Package(name)
        if package or ggml:
            files[f"{name.lower()}.bin"] = decoding(name, package or ggml, ggml)
            if name in ENCODABLE:
                files[f"{name.lower()}.encode.bin"] = encoding(name, package or ggml, ggml)
    differing = []
    for name, content in files.items():
        path = FOLDER / name
        if not args.check:
            path.write_bytes(content)
        elif not path.exists() or path.read_bytes() != content:
            differing.append(name)
    if differing:
        sys.exit(f"differ: {', '.join(differing)}")
    print(f"{len(files)} files{' equal' if args.check else ''}")


main()
