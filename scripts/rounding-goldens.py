#!/usr/bin/env python3
"""Writes tests/goldens/rounding/: what llama.cpp's own functions round activations to. tests/activation_rounding.rs rounds the
same values.

usage: rounding-goldens.py [--check] LLAMA_DIR

  --check     write nothing, fail if a file differs
  LLAMA_DIR   a source tree of llama.cpp (b11434); ggml-quants.c and ggml-cpu/arch/x86/quants.c are compiled, so this runs on
              x86-64 with AVX2

values.bin is f32, little endian, a whole number of 256; <type>.<kernel>.bin holds the blocks made of them. Among the values are
ties, quotients that lie between two ways of taking a reciprocal, zeros, and blocks whose scale is subnormal or 0 as f16.
"""

import argparse
import array
import ctypes
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens" / "rounding"
SEED = 11434
UNIT = 256  # elements of a block of Q8_K
FILES = {  # type and kernel: function, elements and bytes of a block
    "q8_0.portable": ("quantize_row_q8_0_ref", 32, 34),
    "q8_0.x86": ("quantize_row_q8_0", 32, 34),
    "q8_1.portable": ("quantize_row_q8_1_ref", 32, 36),
    "q8_1.x86": ("quantize_row_q8_1", 32, 36),
    "q8_k.portable": ("quantize_row_q8_K_ref", 256, 292),
    "q8_k.x86": ("quantize_row_q8_K", 256, 292),
}


def compile_ggml(tree, scratch):
    """The files as one library. What they call elsewhere in ggml is not called here."""
    ggml = pathlib.Path(tree, "ggml")
    include = [f"-I{ggml / folder}" for folder in ("include", "src", "src/ggml-cpu")]
    # as build-llama.sh has them compiled: the first for any x86-64, the second with AVX2
    parts = {
        ggml / "src" / "ggml-quants.c": [],
        ggml / "src" / "ggml-cpu" / "arch" / "x86" / "quants.c": ["-mavx2", "-mfma", "-mf16c", "-mbmi2"],
    }
    objects = []
    for source, flags in parts.items():
        objects.append(pathlib.Path(scratch, f"{len(objects)}.o"))
        command = ["cc", "-c", "-fPIC", "-std=gnu11", "-O3", "-DNDEBUG", "-w", *flags, *include, source, "-o", objects[-1]]
        subprocess.run(command, check=True)
    undefined = subprocess.run(["nm", "-u", *objects], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1] for line in undefined.splitlines() if " U " in line}
    elsewhere = sorted(name for name in names if name.startswith("ggml_"))
    stubs = pathlib.Path(scratch, "stubs.c")
    stubs.write_text("".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in elsewhere))
    out = pathlib.Path(scratch, "rounding.so")
    subprocess.run(["cc", "-shared", "-fPIC", *objects, stubs, "-lm", "-o", out], check=True)
    return ctypes.CDLL(str(out))


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def values():
    rng = random.Random(SEED)
    rows = [[rng.gauss(0, 10 ** rng.uniform(-3, 3)) for _ in range(UNIT)] for _ in range(4)]
    # ties: halves up to 127, of both signs, one extreme in each block of 32
    for sign in (1, -1):
        row = [rng.randrange(-253, 254) / 2 for _ in range(UNIT)]
        row[::32] = [127.0 * sign] * (UNIT // 32)
        rows.append(row)
    # quotients near a tie, where 127 / amax and the inverse of amax / 127 can differ
    for _ in range(6):
        row = []
        for _ in range(UNIT // 32):
            largest = f32(10 ** rng.uniform(-2, 2))
            row.append(largest)
            for _ in range(31):
                x = f32((rng.randrange(0, 127) + 0.5) * largest / 127)
                x = struct.unpack("<f", struct.pack("<I", struct.unpack("<I", struct.pack("<f", x))[0] + rng.randrange(-2, 3)))[0]
                row.append(math.copysign(x, rng.random() - 0.5))
        rows.append(row)
    # of one super block: the same for Q8_K
    for sign in (1, -1):
        largest = f32(rng.uniform(1, 8))
        rows.append([sign * largest] + [f32((rng.randrange(-126, 127) + 0.5) * largest / 127) for _ in range(UNIT - 1)])
    # zeros, and scales that f16 holds as subnormal or not at all
    row = []
    for size in (0.0, 1e-3, 1e-4, 1e-5, 1e-6, 1e-20, 1e-36, 1e-42):
        row += [rng.uniform(-size, size) for _ in range(32)]
    rows += [[0.0] * UNIT, row]
    return array.array("f", [x for row in rows for x in row])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("llama", metavar="LLAMA_DIR")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        library = compile_ggml(args.llama, scratch)
    row = values()
    files = {"values": row.tobytes()}
    for name, (function, elements, size) in FILES.items():
        blocks = (ctypes.c_uint8 * (len(row) // elements * size))()
        getattr(library, function)((ctypes.c_float * len(row)).from_buffer(row), blocks, ctypes.c_int64(len(row)))
        files[name] = bytes(blocks)
    if files["q8_0.portable"] == files["q8_0.x86"]:
        sys.exit("no value tells the kernels apart")
    differing = []
    FOLDER.mkdir(exist_ok=True)
    for name, content in files.items():
        path = FOLDER / f"{name}.bin"
        if not args.check:
            path.write_bytes(content)
        elif not path.exists() or path.read_bytes() != content:
            differing.append(path.name)
    if differing:
        sys.exit(f"differ: {', '.join(differing)}")
    print(f"{len(files)} files{' equal' if args.check else ''}")


main()
