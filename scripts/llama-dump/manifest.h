// The manifest.

#pragma once

#include "capture.h"
#include "model.h"
#include "options.h"
#include "run.h"

#include <string>

namespace lockstep {

struct Ran {
    const Options & options;
    const Plan & plan;
    const TreeAbilities & tree;
    const llama_model * model;
    const std::string & sha256;
    llama_context * context;
    const Capture & capture;
    const Run & run;
};

std::string manifest_json(const Ran & ran);

}  // namespace lockstep
