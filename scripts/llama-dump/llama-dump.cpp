// llama-dump: runs a model in llama.cpp and writes every tensor of the run, with the graph that made them, as one .npz file.
//
// The format is described in docs/dump-format.md. The file is a zip whose entries are stored, so payloads stream to disk one
// tensor at a time; in memory are the largest tensor, the hashes of what was written, and the text of the manifest.
//
// Needs llama.h and the ggml headers of a llama.cpp tree from July 2025 or later, its libraries, and a C++17 compiler.

#include "manifest.h"
#include "sha256.h"
#include "text.h"

#include <cstdio>
#include <exception>
#include <memory>

namespace lockstep {

namespace {

constexpr int EXIT_CANNOT_RUN = 2;
constexpr int EXIT_CHANGED = 3;

int report(const Options & o, const CaptureCounts & counts, const NpzWriter & npz, const Run & run) {
    if (counts.non_finite > 0) {
        std::fprintf(stderr, "llama-dump: %zu stored tensors hold a NaN or an infinity\n", counts.non_finite);
    }
    const bool unchanged = run.comparison.unchanged();
    if (!unchanged) {
        std::fprintf(stderr, "llama-dump: WARNING: capturing changed the logits; first difference %s\n", run.comparison.difference().c_str());
    }
    std::printf("%s: %zu nodes, %zu stored entries, %.2f MB, %zu steps, logits %s by capturing\n", o.out.c_str(), counts.nodes, npz.count(),
                static_cast<double>(npz.size()) / 1e6, run.ubatches.size(), unchanged ? "unchanged" : "CHANGED");
    return unchanged ? 0 : EXIT_CHANGED;
}

int dump(Options o) {
    const std::string sha256 = sha256_file(o.model);
    llama_log_set(log_callback, nullptr);
    llama_backend_init();
    if (ggml_backend_reg_count() == 0) {
        ggml_backend_load_all();  // a tree built with loadable backends
    }
    TreeAbilities tree;
    const ModelPtr model = load_model(o, tree);
    settle_tokens(o, model.get());
    const Plan plan = make_plan(o);
    NpzWriter npz(o.out);
    Capture capture(o, npz);
    const auto reference = o.reference_kernels ? std::make_unique<ReferenceKernels>(o.threads) : nullptr;
    Observer captured_observer{ reference.get(), &capture, {} }, plain_observer{ reference.get(), nullptr, {} };
    const Watched captured{ make_context(model.get(), o, plan, captured_observer), &captured_observer };
    const Watched plain{ make_context(model.get(), o, plan, plain_observer), &plain_observer };
    const size_t n_evaluations = plan.evaluations.size() + static_cast<size_t>(o.generate);
    const Run run = Runner(o, plan, model.get(), captured, plain, capture, Progress(n_evaluations, capture.counts(), npz)).run();
    npz.finish(manifest_json({ o, plan, tree, model.get(), sha256, captured.context.get(), capture, run }));
    return report(o, capture.counts(), npz, run);
}

}  // namespace

}  // namespace lockstep

int main(int argc, char ** argv) {
    try {
        return lockstep::dump(lockstep::parse_options(argc, argv));
    } catch (const std::exception & error) {
        std::fprintf(stderr, "llama-dump: %s\n", error.what());
        return lockstep::EXIT_CANNOT_RUN;
    }
}
