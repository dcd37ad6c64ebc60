"""What the runs of the zoo found, put together: by operator for the screen, by model and operator for docs/measured/zoo.json."""

import collections


def joined(parts):
    """One summary of one operator out of several."""
    all_of = {"nodes": 0, "within": 0, "zero": 0, "ties": 0, "worst_share": 0.0, "roundings": set()}
    for part in parts:
        for field in ("nodes", "within", "zero", "ties"):
            all_of[field] += part[field]
        all_of["worst_share"] = max(all_of["worst_share"], part["worst_share"])
        all_of["roundings"].update(part["roundings"])
    return {**all_of, "worst_share": round(all_of["worst_share"], 4), "roundings": sorted(all_of["roundings"])}


def by_operator(results):
    """Rows by operator over all runs, those of most models first."""
    parts, models = collections.defaultdict(list), collections.defaultdict(set)
    for run, operators in results:
        for op, own in operators.items():
            parts[op].append(own)
            models[op].add(run.name)
    rows = {op: {"models": len(models[op]), **joined(own)} for op, own in parts.items()}
    return dict(sorted(rows.items(), key=lambda item: (-item[1]["models"], item[0])))


def by_model(results):
    """By model and operator."""
    parts = collections.defaultdict(lambda: collections.defaultdict(list))
    for run, operators in results:
        for op, own in operators.items():
            parts[run.name][op].append(own)
    return {name: {op: joined(own) for op, own in sorted(operators.items())} for name, operators in sorted(parts.items())}


def show(rows, word):
    """The table; `word` is what a node is that passed."""
    lines = [["operator", "models", "nodes", word, "all zero", "ties", "worst share", "rounding found"]]
    for op, row in rows.items():
        share = "" if word == "equal" else f"{row['worst_share']:.2f}"
        counts = [str(row["models"]), *(f"{row[field]:,}" for field in ("nodes", "within", "zero", "ties"))]
        lines.append([op, *counts, share, ", ".join(row["roundings"])])
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        left, *numbers, last = line
        cells = [left.ljust(widths[0]), *(n.rjust(w) for n, w in zip(numbers, widths[1:-1])), last]
        print("  ".join(cells).rstrip())


def reasons(results, word):
    """A line for each operator and reason why a node did not pass."""
    where = collections.defaultdict(list)
    for run, operators in results:
        for op, own in operators.items():
            for why, count in own["reasons"].items():
                where[op, why].append((run.label(), count))
    for (op, why), runs in sorted(where.items()):
        nodes = sum(count for _, count in runs)
        yield f"not {word}: {op}, {nodes} nodes in {len(runs)} runs, first {runs[0][0]}: {why}"
