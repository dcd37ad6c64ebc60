#!/usr/bin/env python3
"""Reads what make-references.sh needs out of a case.toml.

usage: read_case.py model FILE        the word made, then preset, seed and type; or the word fetched, then the name; a line each
       read_case.py count FILE        how many [[dump]] tables there are
       read_case.py builds FILE       the builds of llama.cpp that the dumps need, a line each: pinned, or one of build-llama.sh
       read_case.py dump FILE INDEX   the dump's file name, its build, then llama-dump's options, each ended by a zero byte
       read_case.py committed FILE    yes, or no if its dumps are made on demand
"""

import sys

try:
    import tomllib
except ImportError:  # before Python 3.11; pip brings the same parser along
    from pip._vendor import tomli as tomllib


PINNED = "pinned"
BUILDS = (PINNED, "scalar", "avx512", "unfused", "early-2026")


def fail(path, message):
    sys.exit(f"{path}: {message}")


def text_of(table, key, path):
    value = table.get(key)
    if not isinstance(value, (str, int)) or isinstance(value, bool) or "\n" in str(value):
        fail(path, f"'{key}' is missing or not a plain value")
    return str(value)


def dumps_of(case, path):
    dumps = case.get("dump", [])
    if not dumps:
        fail(path, "there is no [[dump]]")
    for dump in dumps:
        file, command = dump.get("file"), dump.get("command")
        if not isinstance(file, str) or "/" in file or not file.endswith(".npz"):
            fail(path, "'file' of a [[dump]] must be the name of an .npz beside case.toml")
        if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
            fail(path, f"'command' of {file} must be a list of strings")
        if build_of(dump) not in BUILDS:
            fail(path, f"'build' of {file} must be one of {', '.join(BUILDS[1:])}")
        if {"-m", "--model", "--out"} & set(command):
            fail(path, f"'command' of {file} must not hold -m, --model or --out")
    return dumps


def build_of(dump):
    return dump.get("build", PINNED)


def main(what, path, *index):
    with open(path, "rb") as file:
        try:
            case = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            fail(path, error)
    if what == "model":
        model = case.get("model", {})
        kind, keys = ("fetched", ["fetch"]) if "fetch" in model else ("made", ["preset", "seed", "type"])
        print("\n".join([kind] + [text_of(model, key, path) for key in keys]))
    elif what == "count":
        print(len(dumps_of(case, path)))
    elif what == "committed":
        print("yes" if all(dump.get("committed", True) for dump in dumps_of(case, path)) else "no")
    elif what == "builds":
        print("\n".join(sorted({build_of(dump) for dump in dumps_of(case, path)})))
    else:
        dump = dumps_of(case, path)[int(index[0])]
        sys.stdout.write("".join(word + "\0" for word in [dump["file"], build_of(dump), *dump["command"]]))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    main(*sys.argv[1:])
