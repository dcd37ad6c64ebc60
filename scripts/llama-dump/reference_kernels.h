// The CPU backend's plain kernels, in place of its vectorised ones.

#pragma once

#include "tensors.h"
#include "text.h"

#include "ggml-backend.h"
#include "ggml.h"

#include <cstring>
#include <memory>
#include <vector>

namespace lockstep {

/// Computes every node a second time with the CPU backend's plain kernels and puts that result in place of the first.
///
/// A context makes its own backends and does not let anyone at them, so the switch cannot be set on the one that runs the
/// graph. The nodes are public, though: before a node runs (ggml may give its sources' memory to its result) it is computed
/// on a backend of ours into memory of ours. Nodes that write into other tensors (copies, cache writes) move data only and
/// are left to llama.cpp.
class ReferenceKernels {
public:
    explicit ReferenceKernels(int32_t n_threads) : backend_(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr), ggml_backend_free) {
        if (!backend_) {
            fail("--reference-kernels: llama.cpp has no CPU backend");
        }
        using SetRef = void (*)(ggml_backend_t, bool);
        using SetThreads = void (*)(ggml_backend_t, int);
        ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend_.get()));
        const auto set_ref = reinterpret_cast<SetRef>(ggml_backend_reg_get_proc_address(registry, "ggml_backend_cpu_set_use_ref"));
        const auto set_threads = reinterpret_cast<SetThreads>(ggml_backend_reg_get_proc_address(registry, "ggml_backend_set_n_threads"));
        if (!set_ref || !set_threads) {
            fail("--reference-kernels: this llama.cpp tree does not offer them");
        }
        set_ref(backend_.get(), true);
        set_threads(backend_.get(), n_threads);
    }

    void before(const ggml_tensor * t) {
        if (replaces(t)) {
            compute(t);
        }
    }

    void after(ggml_tensor * t) const {
        if (replaces(t)) {
            ggml_backend_tensor_set(t, result_.data(), 0, result_.size());
        }
    }

private:
    static bool replaces(const ggml_tensor * t) { return t->op != GGML_OP_NONE && !is_pure_view(t) && !t->view_src && ggml_nelements(t) > 0; }

    void compute(const ggml_tensor * t) {
        constexpr size_t n_tensors = GGML_MAX_SRC + 1, n_nodes = 16;
        const size_t size = n_tensors * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_nodes, false);
        const std::unique_ptr<ggml_context, decltype(&ggml_free)> context(ggml_init({ size, nullptr, true }), ggml_free);
        ggml_tensor * copy = ggml_new_tensor(context.get(), t->type, GGML_MAX_DIMS, t->ne);
        copy->op = t->op;
        std::memcpy(copy->op_params, t->op_params, sizeof copy->op_params);
        ggml_set_name(copy, t->name);
        for (int i = 0; i < GGML_MAX_SRC; i++) {
            copy->src[i] = t->src[i] ? as_leaf(context.get(), t->src[i]) : nullptr;
        }
        const std::unique_ptr<ggml_backend_buffer, decltype(&ggml_backend_buffer_free)> buffer(
            ggml_backend_alloc_ctx_tensors(context.get(), backend_.get()), ggml_backend_buffer_free);
        ggml_cgraph * graph = ggml_new_graph_custom(context.get(), n_nodes, false);
        ggml_build_forward_expand(graph, copy);
        if (!buffer || ggml_backend_graph_compute(backend_.get(), graph) != GGML_STATUS_SUCCESS) {
            fail(std::string("--reference-kernels: could not compute '") + t->name + "'");
        }
        result_.resize(ggml_nbytes(copy));
        ggml_backend_tensor_get(copy, result_.data(), 0, result_.size());
    }

    /// The same memory and layout, without the history that would be computed along.
    static ggml_tensor * as_leaf(ggml_context * context, const ggml_tensor * t) {
        ggml_tensor * leaf = ggml_new_tensor(context, t->type, GGML_MAX_DIMS, t->ne);
        std::memcpy(leaf->nb, t->nb, sizeof leaf->nb);
        leaf->data = t->data;
        leaf->buffer = t->view_src ? t->view_src->buffer : t->buffer;
        ggml_set_name(leaf, t->name);
        return leaf;
    }

    std::unique_ptr<ggml_backend, decltype(&ggml_backend_free)> backend_;
    std::vector<uint8_t> result_;
};

}  // namespace lockstep
