#!/usr/bin/env python3
"""Checks that a dump obeys every rule of docs/dump-format.md. Needs only the standard library.

usage: check_dump.py FILE.npz..

Prints one line per file and exits 1 if a rule is broken. It reads the zip records itself, because the rules on alignment
and on bytes that belong to no entry cannot be seen through a zip library.
"""

import ast
import json
import math
import re
import struct
import sys
import zipfile

PURE_VIEWS = {"VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"}
DESCR = {"f32": "<f4", "f16": "<f2", "f64": "<f8", "i8": "|i1", "i16": "<i2", "i32": "<i4", "i64": "<i8"}
ELEMENT_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "f64": 8, "i8": 1, "i16": 2, "i32": 4, "i64": 8}
NPY_BYTES = {"<f4": 4, "<f2": 2, "<f8": 8, "|i1": 1, "<i2": 2, "<i4": 4, "<i8": 8, "|u1": 1}
NODE_KEYS = ["id", "step", "name", "occurrence", "op", "variant", "params", "type", "ne", "nb", "contiguous", "sources", "view_of", "entry"]
LEAF_KEYS = ["id", "step", "name", "kind", "type", "ne", "nb", "entry"]


class Broken(Exception):
    """A rule that does not hold."""


def need(condition, message):
    if not condition:
        raise Broken(message)


# -- the container -----------------------------------------------------------------------------------------------------


def read_container(path):
    """The zip's entries as name -> (offset of the data, size), in file order, after checking every record."""
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        directory = archive.start_dir
        bad = archive.testzip()
        need(bad is None, f"CRC-32 of {bad} is wrong")
    names = [info.filename for info in infos]
    need(len(names) == len(set(names)), "two entries have one name")
    need(names and names[-1] == "manifest.json", "manifest.json is not the last entry")
    entries, position = {}, 0
    with open(path, "rb") as file:
        for info in infos:
            need(info.compress_type == zipfile.ZIP_STORED, f"{info.filename} is compressed")
            need(info.flag_bits == 0, f"{info.filename} has flags {info.flag_bits:#x}")
            need(info.header_offset == position, f"bytes before {info.filename} belong to no entry")
            data = data_offset(file, info)
            need(data % 64 == 0, f"data of {info.filename} starts at {data}, not on a 64-byte boundary")
            entries[info.filename] = (data, info.file_size)
            position = data + info.file_size
        need(position == directory, "bytes before the directory belong to no entry")
        check_end(file, directory, len(infos))
    return entries


def data_offset(file, info):
    file.seek(info.header_offset)
    header = file.read(30)
    need(header[:4] == b"PK\x03\x04", f"{info.filename} has no local header")
    crc, packed, size, name_length, extra_length = struct.unpack("<IIIHH", header[14:30])
    name = file.read(name_length).decode()
    extra = file.read(extra_length)
    need(name == info.filename, f"the local header of {info.filename} says {name}")
    need(crc == info.CRC, f"the two headers of {info.filename} disagree about its CRC-32")
    fields = extra_fields(extra, info.filename)
    need(set(fields) <= {0xD935, 1}, f"{info.filename} has extra fields {[hex(f) for f in fields]}")
    if size == 0xFFFFFFFF:
        size, packed = struct.unpack("<QQ", fields[1])
    need(size == packed == info.file_size, f"the two headers of {info.filename} disagree about its size")
    return info.header_offset + 30 + name_length + extra_length


def extra_fields(extra, name):
    fields, at = {}, 0
    while at < len(extra):
        need(at + 4 <= len(extra), f"extra field of {name} is cut off")
        field, length = struct.unpack_from("<HH", extra, at)
        need(at + 4 + length <= len(extra), f"extra field of {name} is cut off")
        fields[field] = extra[at + 4 : at + 4 + length]
        at += 4 + length
    return fields


def check_end(file, directory, count):
    file.seek(0, 2)
    end = file.tell()
    file.seek(directory)
    tail = file.read(end - directory)
    at = 0
    for _ in range(count):
        need(tail[at : at + 4] == b"PK\x01\x02", "the directory has a record that is not an entry's")
        lengths = struct.unpack_from("<HHH", tail, at + 28)
        at += 46 + sum(lengths)
    if tail[at : at + 4] == b"PK\x06\x06":
        at += 56 + 20
    need(tail[at : at + 4] == b"PK\x05\x06" and len(tail) == at + 22, "there are bytes after the directory that belong to nothing")


def read_npy_header(file, name, offset, size):
    """(descr, shape) of an entry, after checking the header's form and that the payload fills the entry."""
    file.seek(offset)
    magic = file.read(10)
    need(magic[:8] == b"\x93NUMPY\x01\x00", f"{name} is not a version 1.0 .npy")
    length = struct.unpack("<H", magic[8:])[0]
    text = file.read(length)
    need((10 + length) % 64 == 0 and text.endswith(b"\n"), f"header of {name} is not padded to 64 bytes")
    header = ast.literal_eval(text.decode("latin1"))
    need(set(header) == {"descr", "fortran_order", "shape"} and header["fortran_order"] is False, f"header of {name}: {header}")
    descr, shape = header["descr"], header["shape"]
    need(descr in NPY_BYTES, f"{name} has descr {descr}")
    need(len(shape) >= 1 and all(n >= 1 for n in shape), f"{name} has shape {shape}")
    need(10 + length + math.prod(shape) * NPY_BYTES[descr] == size, f"{name} holds {size} bytes, its shape {shape} says otherwise")
    return descr, shape


# -- the manifest ------------------------------------------------------------------------------------------------------


def check_head(manifest):
    need(list(manifest) == ["format", "version", "producer", "model", "run", "capture", "leaves", "nodes"], f"manifest keys {list(manifest)}")
    need(manifest["format"] == "lockstep-dump" and manifest["version"] == 1, "not a version 1 dump")
    need(re.fullmatch("[0-9a-f]{64}", manifest["model"]["sha256"]), "model.sha256 is not a SHA-256")
    need(all(len(v.encode()) <= 256 for v in manifest["model"]["metadata"].values()), "a metadata value is too long")
    capture = manifest["capture"]
    need(capture["unchanged"] == (capture["first_difference"] is None), "capture contradicts itself")
    check_run(manifest["run"])


def check_run(run):
    for step, ubatch in enumerate(run["ubatches"]):
        n = len(ubatch["tokens"])
        need(ubatch["step"] == step, f"ubatch {step} says step {ubatch['step']}")
        need(n > 0 and all(len(ubatch[k]) == n for k in ("positions", "seq_ids", "outputs")), f"step {step} lists something other than {n} tokens")
        n_seqs = len({tuple(ids) for ids in ubatch["seq_ids"]})
        need(n <= max(run["n_ubatch"], n_seqs), f"step {step} has {n} tokens of {n_seqs} sequences, n_ubatch is {run['n_ubatch']}")
    check_schedule(run)
    check_positions(run)
    need(("kv_unified" in run) == (run["n_seq_max"] > 1), "kv_unified is for runs of several sequences")
    need(run.get("n_rs_seq", 1) > 0, "n_rs_seq is 0")
    need(re.search("[^0-9,]", run.get("script", "-")), "run.script is a plain list of numbers")


def check_schedule(run):
    """Each batch that was asked for is one ubatch or several; the memory changes between batches only."""
    left = list(run["ubatches"])
    for tokens in run["schedule"]:
        first = True
        while tokens > 0:
            need(left, "there are fewer ubatches than the schedule asks for")
            ubatch = left.pop(0)
            need(first or "before" not in ubatch, f"step {ubatch['step']}: the memory changed within a batch")
            tokens, first = tokens - len(ubatch["tokens"]), False
        need(tokens == 0, f"step {ubatch['step']} goes beyond its batch in the schedule {run['schedule']}")
    need(len(left) >= run["generated"] and (run["generated"] > 0 or not left), f"{len(left)} ubatches follow the schedule, {run['generated']} were generated")


def check_positions(run):
    """Every sequence goes on where it was, or where a change of the memory left it."""
    places = [0] * run["n_seq_max"]
    for ubatch in run["ubatches"]:
        what = f"step {ubatch['step']}"
        need(ubatch.get("before", 1), f"{what}: an empty list of changes")
        for change in ubatch.get("before", []):
            change_memory(places, dict(change), what)
        for position, ids in zip(ubatch["positions"], ubatch["seq_ids"]):
            need(len(ids) == 1 and 0 <= ids[0] < len(places), f"{what}: seq_ids {ids}, n_seq_max is {len(places)}")
            need(position == places[ids[0]], f"{what}: sequence {ids[0]} is at {places[ids[0]]}, a token says {position}")
            places[ids[0]] += 1
        need(max(places) <= run["n_ctx"], f"{what}: more tokens than n_ctx")


def change_memory(places, change, what):
    op = change.pop("op")
    need(all(0 <= change[k] < len(places) for k in change if k != "p0"), f"{what}: unknown sequence in {change}")
    if op == "clear" and not change:
        places[:] = [0] * len(places)
    elif op == "seq_rm" and list(change) == ["seq_id", "p0"]:
        need(0 <= change["p0"] <= places[change["seq_id"]], f"{what}: seq_rm from {change['p0']}, the sequence is at {places[change['seq_id']]}")
        places[change["seq_id"]] = change["p0"]
    elif op == "seq_cp" and list(change) == ["seq_id_src", "seq_id_dst"]:
        places[change["seq_id_dst"]] = places[change["seq_id_src"]]
    else:
        raise Broken(f"{what}: unknown change of the memory {op} {change}")


def elements(tensor):
    return math.prod(tensor["ne"])


def packed_nb(tensor):
    """The strides of a contiguous tensor of this type and shape, or None for a type with blocks."""
    width = ELEMENT_BYTES.get(tensor["type"])
    if width is None:
        return None
    strides = [width]
    for extent in tensor["ne"][:-1]:
        strides.append(strides[-1] * extent)
    return strides


def is_packed(tensor):
    """As ggml has it: the stride of a dimension of extent 1 does not matter."""
    packed = packed_nb(tensor)
    return elements(tensor) == 0 or all(n == 1 or a == b for n, a, b in zip(tensor["ne"], tensor["nb"], packed))


def span(tensor):
    """Bytes from the first to past the last element."""
    if elements(tensor) == 0:
        return 0
    return ELEMENT_BYTES[tensor["type"]] + sum((n - 1) * b for n, b in zip(tensor["ne"], tensor["nb"]))


def check_layout(tensor, what):
    need(len(tensor["ne"]) == 4 and len(tensor["nb"]) == 4, f"{what}: ne and nb must have four numbers")
    if tensor["type"] in ELEMENT_BYTES and "contiguous" in tensor and elements(tensor) > 0:
        need(tensor["contiguous"] == is_packed(tensor), f"{what}: 'contiguous' contradicts nb {tensor['nb']}")


def expected_shape(tensor):
    ne = list(tensor["ne"])
    while len(ne) > 1 and ne[-1] == 1:
        ne.pop()
    return tuple(reversed(ne))


def check_payload(tensor, what, headers):
    entry = tensor["entry"]
    if entry is None:
        return
    need(entry in headers, f"{what}: entry {entry} is not in the file")
    descr, shape = headers[entry]
    need(descr == DESCR.get(tensor["type"], "|u1"), f"{what}: entry {entry} has descr {descr}, type is {tensor['type']}")
    if descr == "|u1":
        need(shape[:-1] == expected_shape(tensor)[:-1], f"{what}: entry {entry} has shape {shape}, ne is {tensor['ne']}")
    else:
        need(math.prod(shape) == elements(tensor), f"{what}: entry {entry} has {math.prod(shape)} elements, ne is {tensor['ne']}")


def entry_base(step, name, occurrence=0):
    suffix = f".{occurrence}" if occurrence else ""
    return f"{step}/" + re.sub(rb"[^A-Za-z0-9._-]", b"_", (name + suffix).encode()).decode()


def check_entry_name(entry, candidates):
    need(re.sub(r"~[0-9]+$", "", entry) in candidates, f"entry {entry} is not named after a tensor that uses it")


def check_leaves(leaves, steps):
    for index, leaf in enumerate(leaves):
        what = f"leaf {index} '{leaf['name']}'"
        need(list(leaf) == LEAF_KEYS, f"{what}: keys {list(leaf)}")
        need(leaf["id"] == index, f"{what}: id {leaf['id']}")
        need(leaf["kind"] in ("weight", "cache", "input"), f"{what}: kind {leaf['kind']}")
        need((leaf["kind"] == "input") == (leaf["step"] is not None), f"{what}: only inputs belong to a step")
        need(leaf["step"] is None or 0 <= leaf["step"] < steps, f"{what}: step {leaf['step']}")
        need(leaf["kind"] == "input" or leaf["entry"] is None, f"{what}: only inputs have a payload")
        need(leaf["kind"] != "input" or leaf["entry"] is not None or elements(leaf) == 0, f"{what}: an input without a payload")
        check_layout(leaf, what)


def check_nodes(nodes, leaves, steps):
    occurrences, step = {}, 0
    for index, node in enumerate(nodes):
        what = f"node {index} '{node['name']}'"
        keys = [k for k in NODE_KEYS if k != "variant" or node["op"] in ("UNARY", "GLU")]
        need(list(node) == keys, f"{what}: keys {list(node)}")
        need(node["id"] == index, f"{what}: id {node['id']}")
        need(node["step"] in (step, step + 1), f"{what}: step {node['step']} after step {step}")
        if node["step"] != step:
            occurrences, step = {}, node["step"]
        need(node["occurrence"] == occurrences.get(node["name"], 0), f"{what}: occurrence {node['occurrence']}")
        occurrences[node["name"]] = node["occurrence"] + 1
        need(not node["params"] or node["params"][-1] != 0, f"{what}: params end in zero")
        need(not node["sources"] or node["sources"][-1] is not None, f"{what}: sources end in null")
        check_layout(node, what)
        for link in node["sources"] + [node["view_of"]]:
            if link is not None:
                check_link(link, node, nodes, leaves, what)
    need(step == steps - 1, f"{step + 1} steps have nodes, {steps} ubatches were run")


def check_link(link, node, nodes, leaves, what):
    need(("node" in link) != ("leaf" in link), f"{what}: link {link}")
    if "node" in link:
        need(0 <= link["node"] < node["id"], f"{what}: reads node {link['node']}, which comes later")
        target = nodes[link["node"]]
        need(target["step"] == node["step"], f"{what}: reads a node of another step")
    else:
        need(0 <= link["leaf"] < len(leaves), f"{what}: reads unknown leaf {link['leaf']}")
        target = leaves[link["leaf"]]
        need(target["step"] in (None, node["step"]), f"{what}: reads an input of another step")
    need(link["name"] == target["name"], f"{what}: calls {target['name']} '{link['name']}'")


def root_of(node, nodes, leaves):
    link = node["view_of"]
    return None if link is None else nodes[link["node"]] if "node" in link else leaves[link["leaf"]]


def check_views(nodes, leaves, store_views):
    """Views lie inside their roots, and have an entry of their own only where they cannot be derived."""
    overwritten, lent = set(), set()
    lenders = first_lenders(nodes)
    for node in nodes:
        what = f"node {node['id']} '{node['name']}'"
        root = root_of(node, nodes, leaves)
        if root is None:
            need(node["op"] not in PURE_VIEWS, f"{what}: a {node['op']} without a root")
            continue
        if node["type"] in ELEMENT_BYTES and root["type"] in ELEMENT_BYTES and elements(node) > 0:
            end = node["view_of"]["offset"] + span(node)
            need(end <= span(root), f"{what}: reaches byte {end} of its root's {span(root)}")
        if "leaf" in node["view_of"]:
            need(store_views or node["op"] not in PURE_VIEWS or node["entry"] is None, f"{what}: a view of a leaf has an entry")
            continue
        if node["op"] not in PURE_VIEWS:
            overwritten.add(root["id"])
            continue
        stored = root["entry"] is not None and (root["id"] not in lenders or root["id"] in lent)
        derivable = stored and root["contiguous"] and root["id"] not in overwritten
        need(store_views or node["entry"] is None or not derivable, f"{what}: has an entry though its root's payload is stored")
        if lenders.get(root["id"]) == node["id"]:
            lent.add(root["id"])


def first_lenders(nodes):
    """For each root whose entry is that of a view of all of it: the first such view."""
    lenders = {}
    for node in nodes:
        link = node["view_of"]
        if node["op"] in PURE_VIEWS and node["entry"] is not None and link and "node" in link:
            root = nodes[link["node"]]
            if root["entry"] == node["entry"] and node["contiguous"] and link["offset"] == 0 and elements(node) == elements(root):
                lenders.setdefault(root["id"], node["id"])
    return lenders


def is_given_name(name):
    return name != "" and " (" not in name and not re.fullmatch("(node|leaf)_[0-9]+", name)


def filter_of(text):
    """(first step, last step, pattern); Python's expressions agree with ECMAScript's on everything a name needs."""
    match = re.match(r"([0-9]+)(-([0-9]*))?:", text)
    if not match:
        return 0, math.inf, re.compile(text)
    first = int(match[1])
    last = first if match[2] is None else math.inf if match[3] == "" else int(match[3])
    return first, last, re.compile(text[match.end() :])


def selected_ids(runs, n_nodes):
    ids, previous = set(), -2
    for first, last in runs:
        need(previous + 1 < first <= last < n_nodes, f"run.selected has [{first}, {last}] after node {previous}")
        ids.update(range(first, last + 1))
        previous = last
    return ids


def check_selection(nodes, run):
    filters = [filter_of(text) for text in run["filters"]]
    lenders = first_lenders(nodes)
    listed = selected_ids(run["selected"], len(nodes))
    for node in nodes:
        named = is_given_name(node["name"]) or not run["named_only"]
        matched = not filters or any(a <= node["step"] <= b and p.search(node["name"]) for a, b, p in filters)
        selected = named and matched and elements(node) > 0
        what = f"node {node['id']} '{node['name']}'"
        need(selected == (node["id"] in listed), f"{what}: run.selected contradicts the filters")
        if node["entry"] is not None:
            need(selected or node["id"] in lenders, f"{what}: has an entry though it was not selected")
        elif selected and node["type"] in ELEMENT_BYTES and (run["views"] or node["op"] not in PURE_VIEWS):
            raise Broken(f"{what}: was selected but has no entry")


def check_end_of_steps(nodes, run):
    """With --until, each step ends at its first match."""
    if "until" not in run:
        return
    pattern = re.compile(run["until"])
    for node, following in zip(nodes, nodes[1:] + [None]):
        last = following is None or following["step"] != node["step"]
        need(last == bool(pattern.search(node["name"])), f"node {node['id']} '{node['name']}': contradicts run.until")


def check_inputs(path, leaves, run, entries):
    """The graphs read the tokens and positions of their ubatches; M-RoPE has four numbers for each position, the first ones first."""
    fields = {"inp_tokens": ("tokens", (1,)), "inp_pos": ("positions", (1, 4))}
    with open(path, "rb") as file:
        for leaf in leaves:
            if leaf["kind"] != "input" or leaf["name"] not in fields or leaf["entry"] is None:
                continue
            field, rows = fields[leaf["name"]]
            expected, what = run["ubatches"][leaf["step"]][field], f"leaf {leaf['id']} '{leaf['name']}'"
            count = elements(leaf)
            need(leaf["type"] == "i32" and count in [r * len(expected) for r in rows], f"{what}: {count} of {leaf['type']} for {len(expected)} tokens")
            offset, size = entries[leaf["entry"] + ".npy"]
            file.seek(offset + size - 4 * count)
            got = list(struct.unpack(f"<{count}i", file.read(4 * count)))
            need(got[: len(expected)] == expected, f"{what}: holds {got}, its ubatch has {expected}")


def check(path):
    entries = read_container(path)
    with open(path, "rb") as file:
        headers = {n[: -len(".npy")]: read_npy_header(file, n, *entries[n]) for n in entries if n.endswith(".npy")}
        need(len(headers) == len(entries) - 1, "the file holds something that is neither a payload nor the manifest")
        offset, size = entries["manifest.json"]
        file.seek(offset)
        text = file.read(size).decode()
    manifest = json.loads(text)
    need(text == json.dumps(manifest, separators=(",", ":"), ensure_ascii=False), "the manifest is not in compact form")
    check_head(manifest)
    run, nodes, leaves = manifest["run"], manifest["nodes"], manifest["leaves"]
    check_leaves(leaves, len(run["ubatches"]))
    check_inputs(path, leaves, run, entries)
    check_nodes(nodes, leaves, len(run["ubatches"]))
    users = {}
    for tensor in leaves + nodes:
        check_payload(tensor, f"'{tensor['name']}'", headers)
        if tensor["entry"] is not None:
            users.setdefault(tensor["entry"], set()).add(entry_base(tensor["step"], tensor["name"], tensor.get("occurrence", 0)))
    need(set(users) == set(headers), f"entries that no tensor uses: {sorted(set(headers) - set(users))[:5]}")
    for entry, candidates in users.items():
        check_entry_name(entry, candidates)
    check_views(nodes, leaves, run["views"])
    check_selection(nodes, run)
    check_end_of_steps(nodes, run)
    return f"{len(nodes)} nodes, {len(leaves)} leaves, {len(headers)} entries, {len(run['ubatches'])} steps"


def main(paths):
    if not paths or paths[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if paths else 2
    failed = 0
    for path in paths:
        try:
            print(f"{path}: ok, {check(path)}")
        except (Broken, OSError, ValueError, KeyError, zipfile.BadZipFile, struct.error) as error:
            print(f"{path}: BROKEN: {error}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
