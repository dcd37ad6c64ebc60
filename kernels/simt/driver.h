// The emulator behind the CUDA driver API: what the files driver_*.cpp share.
//
// The library stands in for libcuda.so: host code that loads the driver at run time (cudarc) runs unchanged. Everything has
// happened when a call returns. Images of modules are ignored, kernels are found by name among those built in. What a kernel does
// wrong is CUDA_ERROR_LAUNCH_FAILED at its launch, with the whole text in cuGetErrorString; unlike on a GPU, where such an error
// stays until the context is made anew, the context can be used afterwards.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api.h"

#pragma GCC visibility push(hidden)

namespace driver {

using Result = int;
using Address = uint64_t;
enum : Result {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
};

using Work = std::function<Result()>;

struct Stream {
    bool capturing = false, invalidated = false;
    std::vector<Work> recorded;
};

// The default stream, under any of its names.
extern Stream null_stream;
Stream* stream_of(void* handle);

// Runs it now, or records it if the stream is being captured.
Result submit(void* stream, Work work);

struct Schedule {
    unsigned order = 0;
    uint64_t seed = 0;
    unsigned threads = 1;
};

// What belongs to a host thread. Not thread_local: that would be shared memory of blocks.
struct HostThread {
    Schedule schedule;
    std::string last_error;
    Stream* captures = nullptr;  // the stream whose capture forbids it what waits for the device
};
HostThread& host_thread();

// For calls that wait for the device: they fail while the thread captures, and spoil the capture.
Result forbidden_in_capture();

}  // namespace driver

#pragma GCC visibility pop
