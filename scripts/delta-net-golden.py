#!/usr/bin/env python3
"""Writes tests/goldens/delta_net/unfused.json: what llama.cpp's graph of plain operators made of a delta net, for two heads.

usage: delta-net-golden.py DUMP.npz OUT.json

DUMP is what llama-dump of `build-llama.sh --unfused` writes for `lockstep synth nano-bonsai --type f32`:

    llama-dump -m nano-bonsai.gguf -t TOKENS --schedule 3,65,1 --named --out DUMP.npz

with the 69 tokens (37 i + 11) mod 256. Of the steps with 65 tokens and with one, both on a state that is not zero, it keeps the
inputs of layer 0, and of every tensor that the graph names about SAMPLES elements at even distances. Values are f32, little
endian, in hexadecimal.
"""

import array
import json
import math
import struct
import sys
import zipfile

N_V = 32
HEADS = [5, 30]
SAMPLES = 80
INPUTS = {
    "chunked": ["q_conv_predelta", "k_in", "v_in", "g_in", "b_in", "state_predelta"],
    "autoregressive": ["q_conv_predelta", "k_conv_predelta", "v_conv_predelta", "g_in", "b_in", "state_predelta"],
}
# Those of the caller, not of the graph.
OUTSIDE = {"chunked": {"k_in", "v_in", "g_in", "b_in"}, "autoregressive": {"g_in", "b_in"}}
FIRST = "dnet_add_ch_state q_in k_in v_in g_cs g_last g_last_exp_t g_diff key_gdiff key_gdiff_t v_b k_b decay_mask attn "
NAMES = set((FIRST + "dnet_add_ch_lhs attn_pre_solve dnet_add_ch_attn_solved k_beta_g_exp k_cumdecay v_prime v_t_new kq "
             "attn_inter v_attn dnet_add_ch_attn_out new_state attn_output").split())


class Dump:
    def __init__(self, path):
        self.zip = zipfile.ZipFile(path)
        self.manifest = json.loads(self.zip.read("manifest.json"))
        self.nodes = self.manifest["nodes"]
        if self.manifest["run"]["fused_gdn"] is not False:
            sys.exit(f"delta-net-golden: {path} is a dump of the fused operator")

    def packed(self, entry):
        data = self.zip.read(entry + ".npy")
        (length,) = struct.unpack_from("<H", data, 8)
        return array.array("f", data[10 + length:])

    def values(self, node):
        """Of a stored tensor, or a view of one: packed."""
        if node["entry"]:
            return self.packed(node["entry"])
        root = self.nodes[node["view_of"]["node"]]
        flat, at = self.packed(root["entry"]), node["view_of"]["offset"] // 4
        steps = [nb // 4 for nb in node["nb"]]
        (n0, n1, n2, n3), out = node["ne"], array.array("f")
        for i3 in range(n3):
            for i2 in range(n2):
                for i1 in range(n1):
                    for i0 in range(n0):
                        out.append(flat[at + i0 * steps[0] + i1 * steps[1] + i2 * steps[2] + i3 * steps[3]])
        return out


def of_heads(node, values):
    """The part of HEADS, and its extents, dimension 0 fastest."""
    axes = [i for i, n in enumerate(node["ne"]) if n == N_V]
    assert len(axes) == 1, (node["name"], node["ne"])
    axis, ne = axes[0], list(node["ne"])
    inner = math.prod(ne[:axis])
    outer = len(values) // (inner * N_V)
    ne[axis] = len(HEADS)
    kept = array.array("f")
    for o in range(outer):
        for head in HEADS:
            at = (o * N_V + head) * inner
            kept.extend(values[at:at + inner])
    return ne, kept


def hexed(values):
    return array.array("f", values).tobytes().hex()


def graph(dump, step, route):
    nodes = [n for n in dump.nodes if n["step"] == step and n["name"].endswith("-0")]
    by_name = {n["name"][:-2]: n for n in reversed(nodes)}
    golden = {"route": route, "n_tokens": by_name["q_conv_predelta"]["ne"][2], "inputs": [], "tensors": []}
    for name in INPUTS[route]:
        golden["inputs"].append(hexed(of_heads(by_name[name], dump.values(by_name[name]))[1]))
    for node in nodes:
        name = node["name"][:-2]
        if name not in NAMES - OUTSIDE[route]:
            continue
        ne, values = of_heads(node, dump.values(node))
        stride = max(1, len(values) // SAMPLES) | 1
        golden["tensors"].append(
            {"name": name, "ne": ne, "stride": stride, "values": hexed(values[::stride])})
    return golden


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    dump = Dump(sys.argv[1])
    graphs = [graph(dump, 1, "chunked"), graph(dump, 2, "autoregressive")]
    with open(sys.argv[2], "w", encoding="ascii") as out:
        json.dump(graphs, out, indent=0)
        out.write("\n")


main()
