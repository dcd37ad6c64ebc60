// The driver: streams, events, and graphs, which are captured streams.
#include <pthread.h>

#include <chrono>

#include "driver.h"

namespace driver {

Stream null_stream;

Stream* stream_of(void* handle) {
    const auto is_default = [](uintptr_t h) { return h <= 2; };  // the default one, its legacy name, its name per thread
    return is_default(uintptr_t(handle)) ? &null_stream : static_cast<Stream*>(handle);
}

Result submit(void* handle, Work work) {
    Stream* stream = stream_of(handle);
    if (!stream->capturing) return work();
    stream->recorded.push_back(std::move(work));
    return SUCCESS;
}

static pthread_key_t make_key() {
    pthread_key_t key;
    pthread_key_create(&key, [](void* thread) { delete static_cast<HostThread*>(thread); });
    return key;
}

HostThread& host_thread() {
    static const pthread_key_t key = make_key();
    auto* thread = static_cast<HostThread*>(pthread_getspecific(key));
    if (!thread) pthread_setspecific(key, thread = new HostThread);
    return *thread;
}

Result forbidden_in_capture() {
    Stream* stream = host_thread().captures;
    if (!stream) return SUCCESS;
    stream->invalidated = true;
    return CAPTURE_UNSUPPORTED;
}

}  // namespace driver

using namespace driver;

EXPORT Result cuStreamCreate(void** stream, unsigned) {
    *stream = new Stream;
    return SUCCESS;
}
EXPORT Result cuStreamCreateWithPriority(void** stream, unsigned, int) { return cuStreamCreate(stream, 0); }
EXPORT Result cuStreamDestroy_v2(void* stream) {
    if (stream_of(stream) != &null_stream) delete stream_of(stream);
    return SUCCESS;
}
EXPORT Result cuStreamSynchronize(void* stream) {
    if (!stream_of(stream)->capturing) return SUCCESS;
    stream_of(stream)->invalidated = true;
    return CAPTURE_UNSUPPORTED;
}
EXPORT Result cuStreamWaitEvent(void*, void*, unsigned) { return SUCCESS; }

struct Event {
    std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();
};

EXPORT Result cuEventCreate(void** event, unsigned) {
    *event = new Event;
    return SUCCESS;
}
EXPORT Result cuEventDestroy_v2(void* event) {
    delete static_cast<Event*>(event);
    return SUCCESS;
}
EXPORT Result cuEventRecord(void* event, void* stream) {
    if (!stream_of(stream)->capturing) static_cast<Event*>(event)->at = std::chrono::steady_clock::now();
    return SUCCESS;
}
EXPORT Result cuEventSynchronize(void*) { return SUCCESS; }
EXPORT Result cuEventQuery(void*) { return SUCCESS; }
EXPORT Result cuEventElapsedTime_v2(float* ms, void* from, void* to) {
    *ms = std::chrono::duration<float, std::milli>(static_cast<Event*>(to)->at - static_cast<Event*>(from)->at).count();
    return SUCCESS;
}
EXPORT Result cuEventElapsedTime(float* ms, void* from, void* to) { return cuEventElapsedTime_v2(ms, from, to); }

struct Graph {
    std::vector<Work> work;
};

// CUstreamCaptureMode: all but this one keep the capturing thread from what waits for the device.
constexpr int RELAXED = 2;

EXPORT Result cuStreamBeginCapture_v2(void* handle, int mode) {
    Stream* stream = stream_of(handle);
    if (stream == &null_stream) return CAPTURE_UNSUPPORTED;
    if (stream->capturing) return INVALID_VALUE;
    stream->capturing = true;
    stream->invalidated = false;
    stream->recorded.clear();
    if (mode != RELAXED) host_thread().captures = stream;
    return SUCCESS;
}
EXPORT Result cuStreamEndCapture(void* handle, void** graph) {
    Stream* stream = stream_of(handle);
    *graph = nullptr;
    if (!stream->capturing) return INVALID_VALUE;
    stream->capturing = false;
    host_thread().captures = nullptr;
    if (stream->invalidated) return CAPTURE_INVALIDATED;
    *graph = new Graph{std::move(stream->recorded)};
    return SUCCESS;
}
// CUstreamCaptureStatus: none, active, invalidated.
EXPORT Result cuStreamIsCapturing(void* handle, int* status) {
    const Stream* stream = stream_of(handle);
    *status = !stream->capturing ? 0 : stream->invalidated ? 2 : 1;
    return SUCCESS;
}

EXPORT Result cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
    *executable = new Graph(*static_cast<Graph*>(graph));
    return SUCCESS;
}
EXPORT Result cuGraphUpload(void*, void*) { return SUCCESS; }
EXPORT Result cuGraphLaunch(void* executable, void* stream) {
    if (stream_of(stream)->capturing) return CAPTURE_UNSUPPORTED;
    for (const Work& work : static_cast<Graph*>(executable)->work)
        if (const Result failed = work()) return failed;
    return SUCCESS;
}
EXPORT Result cuGraphDestroy(void* graph) {
    delete static_cast<Graph*>(graph);
    return SUCCESS;
}
EXPORT Result cuGraphExecDestroy(void* executable) {
    delete static_cast<Graph*>(executable);
    return SUCCESS;
}
