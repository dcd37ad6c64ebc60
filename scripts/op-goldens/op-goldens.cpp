// op-goldens: computes single operators in ggml-cpu and writes tests/goldens/ops/: per operator a JSON file with, for each
// case, the sources, the parameters and the result. tests/op_goldens.rs evaluates the same nodes.
//
// Needs ggml's headers and libraries of a llama.cpp tree from 2026 or later, and a C++17 compiler.

#include "goldens.h"

#include "ggml-cpu.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <set>
#include <stdexcept>

namespace {

constexpr size_t CONTEXT_BYTES = 16 << 20;

// FNV-1a: a case's numbers depend on its name only, so that adding one leaves the others as they are.
uint64_t hash(const std::string & text) {
    uint64_t h = 0xcbf29ce484222325;
    for (unsigned char c : text) {
        h = (h ^ c) * 0x100000001b3;
    }
    return h;
}

std::string hex(const std::vector<uint8_t> & bytes) {
    static const char digits[] = "0123456789abcdef";
    std::string text;
    for (uint8_t byte : bytes) {
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

// The bytes of a tensor's elements in logical order, whatever its strides are.
std::vector<uint8_t> packed(const ggml_tensor * t) {
    const uint8_t * data = static_cast<const uint8_t *>(t->data);
    if (ggml_is_quantized(t->type)) {
        GGML_ASSERT(ggml_is_contiguous(t));
        return { data, data + ggml_nbytes(t) };
    }
    const size_t size = ggml_type_size(t->type);
    std::vector<uint8_t> bytes;
    for (int64_t i3 = 0; i3 < t->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < t->ne[2]; i2++) {
            for (int64_t i1 = 0; i1 < t->ne[1]; i1++) {
                for (int64_t i0 = 0; i0 < t->ne[0]; i0++) {
                    const uint8_t * at = data + i3 * t->nb[3] + i2 * t->nb[2] + i1 * t->nb[1] + i0 * t->nb[0];
                    bytes.insert(bytes.end(), at, at + size);
                }
            }
        }
    }
    return bytes;
}

std::string tensor(const ggml_tensor * t) {
    if (!t) {
        return "null";
    }
    std::string ne;
    for (int64_t n : t->ne) {
        ne += (ne.empty() ? "" : ",") + std::to_string(n);
    }
    return std::string("{\"type\":\"") + ggml_type_name(t->type) + "\",\"ne\":[" + ne +
           "],\"contiguous\":" + (ggml_is_contiguous(t) ? "true" : "false") + ",\"data\":\"" + hex(packed(t)) + "\"}";
}

std::string params(const ggml_tensor * node) {
    size_t count = sizeof(node->op_params) / sizeof(int32_t);
    while (count > 0 && node->op_params[count - 1] == 0) {
        count--;
    }
    std::string text;
    for (size_t i = 0; i < count; i++) {
        text += (i ? "," : "") + std::to_string(node->op_params[i]);
    }
    return "[" + text + "]";
}

std::string variant(const ggml_tensor * node) {
    switch (node->op) {
        case GGML_OP_UNARY: return std::string("\"") + ggml_unary_op_name(ggml_get_unary_op(node)) + "\"";
        case GGML_OP_GLU:   return std::string("\"") + ggml_glu_op_name(ggml_get_glu_op(node)) + "\"";
        default:            return "null";
    }
}

} // namespace

double Inputs::uniform() {
    state += 0x9e3779b97f4a7c15; // splitmix64
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return static_cast<double>(z >> 40) / (1 << 23) - 1;
}

ggml_tensor * Inputs::random(Extents ne, double scale, ggml_type type) {
    ggml_tensor * t = ggml_new_tensor(ctx, type, 4, ne.data());
    std::vector<float> values(ggml_nelements(t));
    for (float & value : values) {
        value = static_cast<float>(uniform() * scale);
    }
    ggml_quantize_chunk(type, values.data(), t->data, 0, ggml_nrows(t), ne[0], nullptr);
    return t;
}

ggml_tensor * Inputs::between(Extents ne, double low, double high) {
    ggml_tensor * t = ggml_new_tensor(ctx, GGML_TYPE_F32, 4, ne.data());
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        static_cast<float *>(t->data)[i] = static_cast<float>(low + (high - low) * (uniform() + 1) / 2);
    }
    return t;
}

template <class T> static ggml_tensor * given(ggml_context * ctx, ggml_type type, Extents ne, const std::vector<T> & values) {
    ggml_tensor * t = ggml_new_tensor(ctx, type, 4, ne.data());
    GGML_ASSERT(ggml_nelements(t) == static_cast<int64_t>(values.size()));
    memcpy(t->data, values.data(), ggml_nbytes(t));
    return t;
}

ggml_tensor * Inputs::floats(Extents ne, const std::vector<float> & values) { return given(ctx, GGML_TYPE_F32, ne, values); }
ggml_tensor * Inputs::ints(Extents ne, const std::vector<int32_t> & values) { return given(ctx, GGML_TYPE_I32, ne, values); }
ggml_tensor * Inputs::longs(Extents ne, const std::vector<int64_t> & values) { return given(ctx, GGML_TYPE_I64, ne, values); }

ggml_tensor * Inputs::padded(Extents ne, double scale) {
    ggml_tensor * whole = random({ ne[0] + 3, ne[1] + 1, ne[2], ne[3] }, scale);
    return ggml_view_4d(ctx, whole, ne[0], ne[1], ne[2], ne[3], whole->nb[1], whole->nb[2], whole->nb[3],
                        whole->nb[1] + 2 * whole->nb[0]);
}

void Goldens::add(const std::string & name, const std::function<ggml_tensor *(Inputs &)> & build, int threads) {
    ggml_context * ctx = ggml_init({ CONTEXT_BYTES, nullptr, false });
    Inputs inputs(ctx, hash(name));
    ggml_tensor * node = build(inputs);
    std::string line = "{\"name\":\"" + name + "\",\"op\":\"" + ggml_op_name(node->op) + "\",\"variant\":" + variant(node) +
                       ",\"params\":" + params(node) +
                       (threads == 1 ? "" : ",\"threads\":" + std::to_string(threads)) + ",\"sources\":[";
    size_t count = GGML_MAX_SRC;
    while (count > 0 && !node->src[count - 1]) {
        count--;
    }
    for (size_t i = 0; i < count; i++) { // before it is computed: it may write into one of them
        line += (i ? "," : "") + tensor(node->src[i]);
    }
    ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, node);
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        ggml_tensor * other = ggml_graph_node(graph, i);
        if (other != node && other->op != GGML_OP_VIEW && other->op != GGML_OP_PERMUTE && other->op != GGML_OP_TRANSPOSE) {
            throw std::runtime_error(name + " computes more than one node");
        }
    }
    if (ggml_graph_compute_with_ctx(ctx, graph, threads) != GGML_STATUS_SUCCESS) {
        throw std::runtime_error(name + " could not be computed");
    }
    line += "],\"result\":" + tensor(node) + "}";
    std::string file = ggml_op_name(node->op);
    for (char & c : file) {
        c = static_cast<char>(tolower(c));
    }
    files[file + ".json"].push_back(line);
    ggml_free(ctx);
}

int main(int argc, char ** argv) {
    if (argc != 2 || argv[1][0] == '-') {
        const bool help = argc == 2 && !strcmp(argv[1], "--help");
        (help ? std::cout : std::cerr) << "usage: op-goldens FOLDER\n\nWrites the goldens of single operators into an empty folder.\n";
        return help ? 0 : 2;
    }
    try {
        ggml_cpu_init(); // fills the f16 tables
        Goldens goldens;
        add_attention(goldens);
        add_elementwise(goldens);
        add_hyper_connections(goldens);
        add_matrices(goldens);
        add_moves(goldens);
        add_rope(goldens);
    add_routing(goldens);
        add_rows(goldens);
        size_t cases = 0;
        for (const auto & [file, lines] : goldens.files) {
            std::ofstream out(std::string(argv[1]) + "/" + file, std::ios::binary);
            out << "[\n";
            for (size_t i = 0; i < lines.size(); i++) {
                out << lines[i] << (i + 1 < lines.size() ? ",\n" : "\n");
            }
            out << "]\n";
            if (!out.flush()) {
                throw std::runtime_error(std::string(argv[1]) + "/" + file + " cannot be written");
            }
            cases += lines.size();
        }
        std::cout << cases << " cases of " << goldens.files.size() << " operators\n";
    } catch (const std::exception & e) {
        std::cerr << "op-goldens: " << e.what() << "\n";
        return 2;
    }
    return 0;
}
