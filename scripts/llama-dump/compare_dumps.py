#!/usr/bin/env python3
"""Says whether a committed dump is what llama.cpp gives: bit by bit, with no tolerance.

usage: compare_dumps.py LABEL COMMITTED.npz FRESH.npz

Passes (exit 0) if the files are equal, or if every payload is bit-identical and the manifests differ in `producer` only.
Otherwise lists what differs and exits 1. Needs only the standard library.
"""

import filecmp
import json
import sys
import zipfile

SHOWN = 10


def read(path):
    archive = zipfile.ZipFile(path)
    return archive, json.loads(archive.read("manifest.json"))


def entry_differences(committed, fresh):
    """(how many entries are bit-identical, what is wrong with the others, in file order)"""
    names = [n for n in committed.namelist() if n != "manifest.json"]
    others = [n for n in fresh.namelist() if n != "manifest.json"]
    equal, wrong = 0, []
    for name in names:
        if name not in set(others):
            wrong.append(f"{name} is not in the fresh dump")
            continue
        a, b = committed.read(name), fresh.read(name)
        if a == b:
            equal += 1
        else:
            wrong.append(f"{name}: {first_difference(a, b)}")
    wrong += [f"{name} is not in the committed dump" for name in others if name not in set(names)]
    return equal, len(names), wrong


def first_difference(a, b):
    if len(a) != len(b):
        return f"committed {len(a)} bytes, fresh {len(b)}"
    at = next(i for i, (x, y) in enumerate(zip(a, b)) if x != y)
    bytes_differing = sum(x != y for x, y in zip(a, b))
    return f"{bytes_differing} of {len(a)} bytes differ, the first at {at}"


def manifest_differences(a, b, path=""):
    """Where two manifests differ, apart from the producer, as lines 'path: committed, fresh'."""
    if type(a) is not type(b):
        return [f"{path}: committed {short(a)}, fresh {short(b)}"]
    if isinstance(a, dict):
        keys = [k for k in list(a) + [k for k in b if k not in a] if (path, k) != ("", "producer")]
        missing = object()
        out = []
        for key in keys:
            x, y = a.get(key, missing), b.get(key, missing)
            if x is missing or y is missing:
                out.append(f"{path}.{key}: only in the {'fresh' if x is missing else 'committed'} dump")
            else:
                out += manifest_differences(x, y, f"{path}.{key}")
        return out
    if isinstance(a, list) and len(a) == len(b):
        return [line for i, (x, y) in enumerate(zip(a, b)) for line in manifest_differences(x, y, f"{path}[{i}]")]
    return [] if a == b else [f"{path}: committed {short(a)}, fresh {short(b)}"]


def short(value):
    text = f"a list of {len(value)}" if isinstance(value, list) and len(value) > 8 else json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."


def producer_differences(a, b):
    return [f"{k}: committed {short(a.get(k))}, fresh {short(b.get(k))}" for k in sorted(set(a) | set(b)) if a.get(k) != b.get(k)]


def show(lines):
    for line in lines[:SHOWN]:
        print(f"    {line}")
    if len(lines) > SHOWN:
        print(f"    (+{len(lines) - SHOWN} more)")


def main(label, committed_path, fresh_path):
    try:
        if filecmp.cmp(committed_path, fresh_path, shallow=False):
            print(f"PASS {label}: the same file, byte for byte")
            return 0
        committed, a = read(committed_path)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        print(f"FAIL {label}: the committed dump cannot be read: {error}")
        return 1
    fresh, b = read(fresh_path)
    try:
        equal, total, wrong = entry_differences(committed, fresh)
    except (OSError, zipfile.BadZipFile) as error:
        print(f"FAIL {label}: the committed dump cannot be read: {error}")
        return 1
    manifest, producer = manifest_differences(a, b), producer_differences(a["producer"], b["producer"])
    failed = bool(wrong or manifest)
    # Equal content in unequal files is still a file that the dumper did not write.
    unexplained = not failed and not producer
    print(f"{'FAIL' if failed or unexplained else 'PASS'} {label}: {equal} of {total} entries are bit-identical")
    if wrong:
        print("  entries, the first that differs first:")
        show(wrong)
    if manifest:
        print("  manifest:")
        show(manifest)
    if unexplained:
        print("  payloads and manifest are equal, yet the files are not: the container was written by something else")
    if producer:
        print("  the producers differ" + (" (another compiler, libc or CPU can change last bits):" if wrong else ":"))
        show(producer)
    return 1 if failed or unexplained else 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    sys.exit(main(*sys.argv[1:]))
