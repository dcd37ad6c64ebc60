// Kernels by name. They register from static initialisers, in whatever order: the table comes into being with the first one.
#include <map>

#include "entry.h"
#include "runtime.h"

namespace simt {

static std::map<std::string, Kernel>& kernels() {
    static auto* all = new std::map<std::string, Kernel>;
    return *all;
}

const Kernel* find_kernel(const char* name) {
    const auto found = kernels().find(name);
    return found == kernels().end() ? nullptr : &found->second;
}

extern "C" void simt_register(const char* name, const char* signature, void (*call)(void* const*)) {
    kernels()[name] = {name, signature, call};
}

}  // namespace simt

EXPORT const char* simt_signature(const char* name) {
    const simt::Kernel* kernel = simt::find_kernel(name);
    return kernel ? kernel->signature : nullptr;
}
