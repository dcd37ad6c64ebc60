// The driver: modules, kernels, launches.
#include <cstring>
#include <map>

#include "driver.h"

using namespace driver;

// CUfunction_attribute
enum { MAX_THREADS_PER_BLOCK = 0, MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
constexpr unsigned DEFAULT_DYNAMIC = 48 * 1024;

struct Function {
    std::string name, signature;
    unsigned max_dynamic = DEFAULT_DYNAMIC;
};
struct Module {
    std::map<std::string, Function> functions;
};

EXPORT void simt_set_schedule(unsigned order, uint64_t seed, unsigned threads) {
    host_thread().schedule = {order, seed, threads};
}

EXPORT Result cuModuleLoadData(void** module, const void*) {
    *module = new Module;
    return SUCCESS;
}
EXPORT Result cuModuleUnload(void* module) {
    delete static_cast<Module*>(module);
    return SUCCESS;
}
EXPORT Result cuModuleGetFunction(void** function, void* module, const char* name) {
    const char* signature = simt_signature(name);
    if (!signature) return NOT_FOUND;
    Function& f = static_cast<Module*>(module)->functions[name];
    f.name = name;
    f.signature = signature;
    *function = &f;
    return SUCCESS;
}

EXPORT Result cuFuncGetAttribute(int* value, int attribute, void* function) {
    *value = attribute == MAX_THREADS_PER_BLOCK           ? 1024
           : attribute == MAX_DYNAMIC_SHARED_SIZE_BYTES ? int(static_cast<Function*>(function)->max_dynamic)
                                                          : 0;
    return SUCCESS;
}
EXPORT Result cuFuncSetAttribute(void* function, int attribute, int value) {
    if (attribute != MAX_DYNAMIC_SHARED_SIZE_BYTES) return SUCCESS;
    if (value < 0 || size_t(value) > simt::MAX_DYNAMIC) return INVALID_VALUE;
    static_cast<Function*>(function)->max_dynamic = unsigned(value);
    return SUCCESS;
}
EXPORT Result cuFuncSetCacheConfig(void*, int) { return SUCCESS; }

// Arguments are copied, as the caller's may be gone when a recorded launch runs.
EXPORT Result cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned dynamic, void* stream, void** params, void**) {
    const Function* f = static_cast<Function*>(function);
    if (dynamic > f->max_dynamic) return INVALID_VALUE;
    const simt::Launch launch{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic, 0, 0, 1};
    std::vector<uint64_t> values(f->signature.size());
    for (size_t i = 0; i < values.size(); i++) memcpy(&values[i], params[i], strchr("iuf", f->signature[i]) ? 4 : 8);
    return submit(stream, [name = f->name, launch, values]() -> Result {
        HostThread& thread = host_thread();
        simt::Launch l = launch;
        l.order = thread.schedule.order;
        l.seed = thread.schedule.seed;
        l.threads = thread.schedule.threads;
        std::vector<void*> args;
        for (const uint64_t& value : values) args.push_back(const_cast<uint64_t*>(&value));
        char error[1200];
        if (!simt_launch(name.c_str(), &l, args.data(), error, sizeof error)) return SUCCESS;
        thread.last_error = error;
        return LAUNCH_FAILED;
    });
}
