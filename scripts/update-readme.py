#!/usr/bin/env python3
"""Runs the commands that README.md shows and puts their output into it.

usage: update-readme.py            writes README.md anew
       update-readme.py --check    fails if a shown output is not what the command gives now

A block looks like this; the line in the comment is what is run, in the repository's root:

    <!-- output of: lockstep check reference-dumps/mini-bonsai; exit 0 -->
    ```text
    $ lockstep check reference-dumps/mini-bonsai
    ..
    ```

Scripts that measure, or show what was measured, are run too. With --check, measured numbers may differ (another C library
rounds the exponential otherwise), and with them the order of rows; the exit code and the last line's counts may not.
LOCKSTEP names the binary; target/release/lockstep if it is not set.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- output of: (?P<command>.+?); exit (?P<code>\d+) -->\n```text\n(?P<shown>.*?)```\n", re.S)
SCRIPTS = ["scripts/measure.py", "scripts/rounding-table.py"]
BINARY = os.environ.get("LOCKSTEP", str(ROOT / "target" / "release" / "lockstep"))


def run(command, expected):
    words = shlex.split(command)
    program = {"lockstep": [BINARY]} | {script: [sys.executable, script] for script in SCRIPTS}
    done = subprocess.run([*program[words[0]], *words[1:]], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != expected:
        sys.exit(f"{command}: exit {done.returncode}, expected {expected}\n{done.stderr}")
    return f"$ {command}\n{done.stdout}{done.stderr if expected == 2 else ''}"


def counts(text):
    """The last line without what is measured: everything from the worst tensor on, and what measure.py prints."""
    return re.split("; worst|peak memory", text.rstrip().splitlines()[-1])[0]


def main(check):
    path = ROOT / "README.md"
    text = path.read_text()
    blocks = list(BLOCK.finditer(text))
    if not blocks:
        sys.exit("README.md shows no output")
    for block in blocks:
        output = run(block["command"], int(block["code"]))
        if check and counts(output) != counts(block["shown"]):
            sys.exit(f"{block['command']}\n  README.md: {counts(block['shown'])}\n  now:       {counts(output)}")
        new = f"<!-- output of: {block['command']}; exit {block['code']} -->\n```text\n{output.rstrip()}\n```\n"
        text = text.replace(block[0], new)
    if not check:
        path.write_text(text)
    print(f"{len(blocks)} outputs {'checked' if check else 'written'}")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
