// zoo-models: writes llama.cpp's own tiny random models, one for each architecture that its test program can build.
//
// The program is llama.cpp's tests/test-llama-archs.cpp, of which only the part that saves models is kept: what it needs of llama.cpp's
// common library is logging, which stands below, so that the library need not be built.

#define main test_llama_archs_main
#include "test-llama-archs.cpp"
#undef main

#include <cstdarg>
#include <cstdlib>

struct common_log {};

common_log * common_log_main() {
    static common_log log;
    return &log;
}

void common_log_add(common_log *, ggml_log_level, const char * format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
}

int common_log_get_verbosity_thold() {
    return LOG_LEVEL_ERROR;
}

// As common/log.cpp has it.
int common_log_get_verbosity(ggml_log_level level) {
    switch (level) {
        case GGML_LOG_LEVEL_DEBUG: return LOG_LEVEL_DEBUG;
        case GGML_LOG_LEVEL_INFO:  return LOG_LEVEL_INFO;
        case GGML_LOG_LEVEL_WARN:  return LOG_LEVEL_WARN;
        case GGML_LOG_LEVEL_ERROR: return LOG_LEVEL_ERROR;
        default:                   return LOG_LEVEL_OUTPUT;
    }
}

namespace {

const char * USAGE =
    "zoo-models: write llama.cpp's tiny random models, one for each architecture\n"
    "\n"
    "usage: zoo-models --out DIR [--arch NAME|REGEX] [--seed N] [--stdev X]\n"
    "       zoo-models --quantize q8_0|q4_K MODEL OUT\n"
    "\n"
    "      --out DIR     where to write ARCH-dense.gguf and ARCH-moe.gguf\n"
    "      --arch NAME   only this architecture, or those whose names contain a match\n"
    "      --seed N      of the weights (default 1)\n"
    "      --stdev X     their standard deviation (default 0.1)\n"
    "  -h, --help\n";

[[noreturn]] void fail(const std::string & what) {
    fprintf(stderr, "zoo-models: %s (see --help)\n", what.c_str());
    exit(2);
}

template <typename T> T number(const std::string & flag, const std::string & text, T (*parse)(const std::string &, size_t *)) {
    size_t end   = 0;
    T      value = 0;
    try {
        value = parse(text, &end);
    } catch (const std::exception &) {
        end = 0;
    }
    if (text.empty() || end != text.size()) {
        fail(flag + " needs a number, not '" + text + "'");
    }
    return value;
}

// What llama-quantize does.
int quantize(const std::string & type, const char * model, const char * out) {
    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.nthread                     = 1;
    if (type == "q8_0") {
        params.ftype = LLAMA_FTYPE_MOSTLY_Q8_0;
    } else if (type == "q4_K") {
        params.ftype = LLAMA_FTYPE_MOSTLY_Q4_K_M;
    } else {
        fail("--quantize takes q8_0 or q4_K, not '" + type + "'");
    }
    llama_log_set([](ggml_log_level level, const char * text, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) {
            fputs(text, stderr);
        }
    }, nullptr);
    return llama_model_quantize(model, out, &params) == 0 ? 0 : 2;
}

}  // namespace

int main(int argc, char ** argv) {
    std::string filter, out;
    size_t      seed  = 1;
    float       stdev = 0.1f;
    for (int i = 1; i < argc; i++) {
        const std::string flag = argv[i];
        if (flag == "-h" || flag == "--help") {
            fputs(USAGE, stdout);
            return 0;
        }
        if (flag == "--quantize") {
            if (i != 1 || argc != 5) {
                fail("--quantize needs a type, a model and a file to write, and nothing else");
            }
            return quantize(argv[2], argv[3], argv[4]);
        }
        if (flag != "--out" && flag != "--arch" && flag != "--seed" && flag != "--stdev") {
            fail("unknown argument '" + flag + "'");
        }
        if (i + 1 == argc) {
            fail(flag + " needs a value");
        }
        const std::string value = argv[++i];
        if (flag == "--out") {
            out = value;
        } else if (flag == "--arch") {
            filter = llm_arch_from_string(value) == LLM_ARCH_UNKNOWN ? value : "^" + value + "$";
        } else if (flag == "--seed") {
            seed = number<unsigned long long>(flag, value, [](const std::string & s, size_t * end) { return std::stoull(s, end); });
        } else {
            stdev = number<float>(flag, value, [](const std::string & s, size_t * end) { return std::stof(s, end); });
        }
    }
    if (out.empty()) {
        fail("--out is missing");
    }
    if (!(stdev > 0)) {
        fail("--stdev must be above 0");
    }
    try {
        return save_models(filter, seed, stdev, LOG_LEVEL_ERROR, out);
    } catch (const std::exception & error) {
        fprintf(stderr, "zoo-models: %s\n", error.what());
        return 2;
    }
}
