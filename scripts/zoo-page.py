#!/usr/bin/env python3
"""The measured tables of docs/zoo.md: what was found when every architecture of llama.cpp was replayed.

usage: zoo-page.py            prints the tables from docs/measured/zoo.json
       zoo-page.py --write    puts them into docs/zoo.md
       zoo-page.py --check    fails if docs/zoo.md shows others

The figures come from `scripts/zoo.sh --whole`.
"""

import json
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "zoo.md"
BEGIN, END = "<!-- tables of scripts/zoo-page.py -->\n", "<!-- end of the tables -->\n"
FIELDS = ("nodes", "within", "zero", "ties")


def total(operators, field):
    return sum(own[field] for own in operators.values())


def worst(operators):
    """The largest share of a budget, and whose it is."""
    op, own = max(operators.items(), key=lambda item: item[1]["worst_share"])
    return f"{own['worst_share']:.2f} {op}" if own["worst_share"] > 0 else "none"


def sets_table(sets):
    titles = {
        "exact": "F32, three seeds, two deviations, in exact arithmetic",
        "quantised": "Q8_0 and Q4_K, in exact arithmetic",
        "scalar bits": "F32, Q8_0 and Q4_K, scalar build, in ggml's arithmetic",
        "usual bits": "the same by the usual build (AVX2)",
    }
    yield "| weights | models | runs | nodes | within, or equal to the bit | all zero |"
    yield "|---|---|---|---|---|---|"
    for name, found in sets.items():
        nodes, passed, zero, _ = (sum(total(own, field) for own in found["models"].values()) for field in FIELDS)
        yield f"| {titles[name]} | {len(found['models'])} | {found['runs']:,} | {nodes:,} | {passed:,} | {zero:,} |"
    refused = {(name, ty, error.split(": ", 1)[1]) for found in sets.values() for name, ty, error in found["refused"]}
    for name, ty, error in sorted(refused):
        yield f"\n{name} with {ty} is refused by llama.cpp: `{error}`."


def operators_table(sets):
    models = sets["exact"]["models"]
    rows = {}
    for operators in models.values():
        for op, own in operators.items():
            row = rows.setdefault(op, {"models": 0, "worst_share": 0.0, "roundings": set(), **dict.fromkeys(FIELDS, 0)})
            row["models"] += 1
            for field in FIELDS:
                row[field] += own[field]
            row["worst_share"] = max(row["worst_share"], own["worst_share"])
    for found in sets.values():
        for operators in found["models"].values():
            for op, own in operators.items():
                rows[op]["roundings"].update(own["roundings"])
    yield "| operator | models | nodes | within | worst share | ties | rounding found | bit-equal, scalar | AVX2 |"
    yield "|---|---|---|---|---|---|---|---|---|"

    def bits(op, build):
        own = [operators[op] for operators in sets[f"{build} bits"]["models"].values() if op in operators]
        return f"{sum(each['within'] for each in own):,} of {sum(each['nodes'] for each in own):,}"

    for op, row in sorted(rows.items(), key=lambda item: (-item[1]["models"], item[0])):
        cells = [op, row["models"], f"{row['nodes']:,}", f"{row['within']:,}", f"{row['worst_share']:.2f}", f"{row['ties']:,}"]
        yield "| " + " | ".join(map(str, [*cells, ", ".join(sorted(row["roundings"])), bits(op, "scalar"), bits(op, "usual")])) + " |"


def models_table(sets):
    yield "| architecture | nodes | within | worst share | rounding found | operators |"
    yield "|---|---|---|---|---|---|"
    for name, operators in sets["exact"]["models"].items():
        quantised = sets["quantised"]["models"].get(name, {})
        roundings = {rounding for own in (*operators.values(), *quantised.values()) for rounding in own["roundings"]}
        counts = ", ".join(f"{op} {own['nodes']:,}" for op, own in operators.items())
        cells = [name, f"{total(operators, 'nodes'):,}", f"{total(operators, 'within'):,}", worst(operators), ", ".join(sorted(roundings)), counts]
        yield "| " + " | ".join(cells) + " |"


def tables():
    sets = json.loads((DOCS / "measured" / "zoo.json").read_text())["sets"]
    parts = [sets_table(sets), ["", "## By operator", ""], operators_table(sets), ["", "## By architecture", ""], models_table(sets)]
    return "\n".join(line for part in parts for line in part) + "\n"


def main(words):
    if words not in ([], ["--write"], ["--check"]):
        sys.exit(__doc__)
    if not words:
        return print(tables(), end="")
    before, rest = PAGE.read_text().split(BEGIN)
    shown, after = rest.split(END)
    if words == ["--write"]:
        PAGE.write_text(before + BEGIN + tables() + END + after)
    elif shown != tables():
        sys.exit("docs/zoo.md shows other tables than docs/measured/zoo.json has: scripts/zoo-page.py --write")


if __name__ == "__main__":
    main(sys.argv[1:])
