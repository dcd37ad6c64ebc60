#!/usr/bin/env python3
"""The measured table of docs/arithmetic.md: what each order of operations and each rounding of llama.cpp does to a result.

usage: arithmetic-table.py            prints the table from docs/measured/arithmetic.json
       arithmetic-table.py --write    puts it into docs/arithmetic.md
       arithmetic-table.py --check    fails if docs/arithmetic.md shows another

The figures come from the tests, which need the real models (scripts/real-models.sh --fetch):
    cargo test --release --test to_the_bit -- --ignored measure
"""

import json
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "arithmetic.md"
BEGIN, END = "<!-- table of scripts/arithmetic-table.py -->\n", "<!-- end of the table -->\n"


def table():
    lines = ["| operator | if instead | elements that change | largest change |", "|---|---|---|---|"]
    for row in json.loads((DOCS / "measured" / "arithmetic.json").read_text())["rows"]:
        percent = 100 * row["changed"] / row["elements"]
        share = f"{percent:{'.0f' if percent >= 10 else '.2g'}} % of {row['elements']:,}"
        largest = row["largest_u"]
        size = f"{largest:.1f} u" if largest < 1000 else f"{largest / 2**24:.1e}"
        lines.append(f"| {row['operator']} | {row['otherwise']} | {share} | {size} |")
    return "\n".join(lines) + "\n"


def main(words):
    if words not in ([], ["--write"], ["--check"]):
        sys.exit(__doc__)
    if not words:
        return print(table(), end="")
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    shown, after = rest.split(END)
    if words == ["--write"]:
        PAGE.write_text(before + BEGIN + table() + END + after)
    elif shown != table():
        sys.exit("docs/arithmetic.md shows another table than docs/measured/arithmetic.json has: scripts/arithmetic-table.py --write")


if __name__ == "__main__":
    main(sys.argv[1:])
