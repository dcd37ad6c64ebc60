// What a context tells about every node, and to whom.

#pragma once

#include "capture.h"
#include "reference_kernels.h"

namespace lockstep {

/// What a context tells about every node, and to whom.
struct Observer {
    ReferenceKernels * reference;
    Capture * capture;
    std::string error;  // must not unwind through llama.cpp
};

bool observe_callback(ggml_tensor * t, bool ask, void * data);

}  // namespace lockstep
