#!/usr/bin/env python3
"""Writes tests/goldens/quant/: blocks of every type that the PyPI package `gguf` (0.19.0) can read, and what it reads from
them. tests/quant_goldens.rs decodes the same blocks.

usage: quant-goldens.py            write the files
       quant-goldens.py --check    fail if a file differs

<type>.bin, little endian. A unit is as many blocks as hold 256 elements.

    u32 whole, u32 sums
    whole + sums units of blocks
    f32[whole][256]    the elements of the first units
    u32[sums]          CRC-32 of the f32 elements of each other unit, which keeps the files small

<type>.encode.bin, of types that the package and we encode by the same rule:

    u32 units
    f32[units][256]    values
    units of blocks

Blocks are random bytes, with these exceptions: in the first units with a sum, scales take extreme values (zero, subnormal,
greatest, of both signs; all 256 of the types with scales of eight bits), units go on until every point of a type's lattice
has been read, and units with a NaN are left out, because the package does not say which NaN it means.
"""

import importlib.metadata
import pathlib
import sys
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
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.TQ1_0: [52], T.TQ2_0: [64],
    T.IQ2_XXS: [0], T.IQ2_XS: [0], T.IQ2_S: [0], T.IQ3_XXS: [0], T.IQ3_S: [0], T.IQ1_S: [0], T.IQ4_NL: [0], T.IQ4_XS: [0],
}
BYTES = {T.MXFP4: [0], T.NVFP4: [0, 1, 2, 3]}  # offsets of scales of eight bits
PLAIN = [T.F32, T.F16, T.BF16]
TYPES = [*PLAIN, *HALVES, *BYTES, T.IQ1_M]
ENCODABLE = [T.F16, T.BF16, T.Q4_0, T.Q8_0, T.TQ1_0, T.TQ2_0]


def set_scales(ty, blocks, at):
    """Puts extreme scales into `blocks` [n, type_size], which are blocks number `at` and on."""
    for i, block in enumerate(blocks, at):
        if ty in HALVES and i < len(EXTREMES) ** 2:
            for k, offset in enumerate(HALVES[ty]):
                # a second scale falls back by one with each round
                bits = EXTREMES[(i + k * (i // len(EXTREMES))) % len(EXTREMES)]
                block[offset : offset + 2] = [bits & 255, bits >> 8]
        elif ty in BYTES:
            for k, offset in enumerate(BYTES[ty]):
                block[offset] = (i * len(BYTES[ty]) + k) % 256
        elif ty == T.IQ1_M and i < len(EXTREMES):
            for k in range(4):  # four bits in each of four words
                block[49 + 2 * k] = block[49 + 2 * k] & 15 | (EXTREMES[i] >> (4 * k) & 15) << 4


class Reader:
    """Decodes units and notes which points of the type's lattice were read."""

    def __init__(self, ty):
        self.ty = ty
        self.cls = quants._type_traits.get(ty)
        if self.cls is not None:
            self.cls.init_grid()
        self.unread = set(range(self.cls.grid_shape[0])) if self.cls is not None and self.cls.grid is not None else set()

    def read(self, blocks):
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


def decoding(ty):
    rng = np.random.default_rng([SEED, int(ty)])
    elements, size = GGML_QUANT_SIZES[ty]
    per_unit, reader = UNIT // elements, Reader(ty)
    wanted = WHOLE + (PLAIN_SUMS if ty in PLAIN else SUMS)
    units, values = [], []
    at = 0
    while len(units) < wanted or reader.unread:
        blocks = rng.integers(0, 256, (per_unit, size), dtype=np.uint8)
        if ty in PLAIN:  # no infinities and NaN, since few units would be free of them
            exponent = 0x7C if ty == T.F16 else 0x7F
            blocks[blocks[:, -1] & exponent == exponent, -1] ^= 0x40
        if len(units) >= WHOLE:
            set_scales(ty, blocks, at)
            at += per_unit
        unit, new = reader.read(blocks)
        if not np.isnan(unit).any() and (len(units) < wanted or new):
            units.append(blocks.tobytes())
            values.append(unit.tobytes())
    sums = [zlib.crc32(unit) for unit in values[WHOLE:]]
    return b"".join([
        np.array([WHOLE, len(sums)], "<u4").tobytes(), *units, *values[:WHOLE], np.array(sums, "<u4").tobytes(),
    ])


def encoding(ty):
    rng = np.random.default_rng([SEED, 1000 + int(ty)])
    values = rng.standard_normal((ENCODED, UNIT)) * 10.0 ** rng.uniform(-3, 3, (ENCODED, 1))
    values[0] = rng.integers(-1, 2, UNIT) * 0.375  # ternary
    values[1] = rng.integers(-254, 255, UNIT) / 2  # ties
    values[1, :32] = 0
    values = values.astype("<f4")
    blocks = quants.quantize(values, ty).view(np.uint8)
    return np.array([ENCODED], "<u4").tobytes() + values.tobytes() + blocks.tobytes()


def main():
    if (version := importlib.metadata.version("gguf")) != VERSION:
        sys.exit(f"gguf {version} is installed, {VERSION} is needed")
    missing = [ty.name for ty in quants._type_traits if ty not in TYPES]
    if missing:
        sys.exit(f"the package knows types that this script does not: {', '.join(missing)}")
    files = {f"{ty.name.lower()}.bin": decoding(ty) for ty in TYPES}
    files |= {f"{ty.name.lower()}.encode.bin": encoding(ty) for ty in ENCODABLE}
    differing = []
    for name, content in files.items():
        path = FOLDER / name
        if "--check" not in sys.argv[1:]:
            path.write_bytes(content)
        elif not path.exists() or path.read_bytes() != content:
            differing.append(name)
    if differing:
        sys.exit(f"differ: {', '.join(differing)}")


main()
