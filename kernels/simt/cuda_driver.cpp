// cuda_driver.cpp - the emulator behind the CUDA driver API: a stand-in for libcuda.so.
//
// Host code that loads libcuda dynamically (cudarc) runs unchanged, the kernels run on the CPU.
// Everything is synchronous. cuModuleLoadData ignores the image: functions are found by name among
// the kernels compiled into this object. A bug found by the emulator is CUDA_ERROR_LAUNCH_FAILED
// and cuGetErrorString tells what it was.
#include <pthread.h>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))
using CUresult = int;
using Ptr = uint64_t;
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_HANDLE = 400, NOT_FOUND = 500, LAUNCH_FAILED = 719, CAPTURE_INVALID = 901 };

struct Launch { unsigned grid[3], block[3]; unsigned dynamic, order; uint64_t seed; unsigned threads; };
API void* simt_alloc(size_t);
API void simt_free(void*);
API int simt_host_access(void*, size_t, int);
API const char* simt_signature(const char*);
API int simt_launch(const char*, const Launch*, void* const*, char*, size_t);

namespace {
std::string last_error = "the emulator found a bug in a kernel";
using Work = std::function<CUresult()>;
struct Stream { bool capturing = false; std::vector<Work> recorded; };
struct Function { std::string name, signature; int max_dynamic = 48 * 1024; };
struct Module { std::map<std::string, Function> functions; };
struct Event { std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now(); };
struct Graph { std::vector<Work> work; };
Stream null_stream;
Stream* stream_of(void* s) { return s && s != (void*)1 && s != (void*)2 ? static_cast<Stream*>(s) : &null_stream; }
CUresult submit(void* s, Work w) {
  Stream* st = stream_of(s);
  if (!st->capturing) return w();
  st->recorded.push_back(std::move(w));
  return SUCCESS;
}
// How what this thread launches is run.
// Not thread_local: this library's thread-local segment is the shared memory of blocks, poisoned at every launch.
struct Schedule { unsigned order = 0; uint64_t seed = 0; unsigned threads = 1; };
pthread_key_t schedule_key;
const bool schedule_key_made = pthread_key_create(&schedule_key, [](void* s) { delete static_cast<Schedule*>(s); }) == 0;
Schedule& schedule() {
  Schedule* s = static_cast<Schedule*>(pthread_getspecific(schedule_key));
  if (!s) pthread_setspecific(schedule_key, s = new Schedule);
  return *s;
}
CUresult fail(const std::string& m) { last_error = m; return LAUNCH_FAILED; }
}  // namespace

API void simt_set_schedule(unsigned order, uint64_t seed, unsigned threads) { schedule() = {order, seed, threads}; }

API CUresult cuInit(unsigned) { return SUCCESS; }
API CUresult cuDriverGetVersion(int* v) { *v = 13000; return SUCCESS; }
API CUresult cuGetErrorName(CUresult e, const char** s) {
  *s = e == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : e == INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : e == NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : e == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN";
  return SUCCESS;
}
API CUresult cuGetErrorString(CUresult e, const char** s) { if (e == LAUNCH_FAILED) *s = last_error.c_str(); else cuGetErrorName(e, s); return SUCCESS; }

API CUresult cuDeviceGetCount(int* n) { *n = 1; return SUCCESS; }
API CUresult cuDeviceGet(int* d, int i) { *d = i; return i == 0 ? SUCCESS : INVALID_DEVICE; }
API CUresult cuDeviceGetName(char* s, int n, int) { strncpy(s, "SIMT emulator", size_t(n)); return SUCCESS; }
API CUresult cuDeviceTotalMem_v2(size_t* n, int) { *n = size_t(8) << 30; return SUCCESS; }
API CUresult cuMemGetInfo_v2(size_t* f, size_t* t) { *f = *t = size_t(8) << 30; return SUCCESS; }
API CUresult cuDeviceGetAttribute(int* v, int a, int) {
  switch (a) {
    case 1: *v = 1024; break;              // MAX_THREADS_PER_BLOCK
    case 8: *v = 48 * 1024; break;         // MAX_SHARED_MEMORY_PER_BLOCK
    case 10: *v = 32; break;               // WARP_SIZE
    case 16: *v = 2; break;                // MULTIPROCESSOR_COUNT
    case 75: *v = 9; break;                // COMPUTE_CAPABILITY_MAJOR
    case 76: *v = 0; break;                // COMPUTE_CAPABILITY_MINOR
    case 97: *v = 99 * 1024; break;        // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    case 115: *v = 1; break;               // MEMORY_POOLS_SUPPORTED
    default: *v = 0;
  }
  return SUCCESS;
}
API CUresult cuDevicePrimaryCtxRetain(void** c, int) { *c = &null_stream; return SUCCESS; }
API CUresult cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
API CUresult cuCtxSetCurrent(void*) { return SUCCESS; }
API CUresult cuCtxGetCurrent(void** c) { *c = &null_stream; return SUCCESS; }
API CUresult cuCtxSynchronize() { return SUCCESS; }

API CUresult cuStreamCreate(void** s, unsigned) { *s = new Stream; return SUCCESS; }
API CUresult cuStreamDestroy_v2(void* s) { if (stream_of(s) != &null_stream) delete stream_of(s); return SUCCESS; }
API CUresult cuStreamSynchronize(void* s) { return stream_of(s)->capturing ? CAPTURE_INVALID : SUCCESS; }
API CUresult cuStreamWaitEvent(void*, void*, unsigned) { return SUCCESS; }

API CUresult cuMemAllocAsync(Ptr* p, size_t n, void* st) { if (stream_of(st)->capturing) return 900; *p = Ptr(simt_alloc(n)); return *p ? SUCCESS : OUT_OF_MEMORY; }
API CUresult cuMemAlloc_v2(Ptr* p, size_t n) { return cuMemAllocAsync(p, n, nullptr); }
API CUresult cuMemFreeAsync(Ptr p, void*) { simt_free(reinterpret_cast<void*>(p)); return SUCCESS; }
API CUresult cuMemFree_v2(Ptr p) { return cuMemFreeAsync(p, nullptr); }
API CUresult cuMemcpyHtoDAsync_v2(Ptr d, const void* s, size_t n, void* st) {
  return submit(st, [=] { if (simt_host_access((void*)d, n, 1)) return INVALID_VALUE; memcpy((void*)d, s, n); return SUCCESS; });
}
API CUresult cuMemcpyDtoHAsync_v2(void* d, Ptr s, size_t n, void* st) {
  return submit(st, [=] { if (simt_host_access((void*)s, n, 0)) return INVALID_VALUE; memcpy(d, (void*)s, n); return SUCCESS; });
}
API CUresult cuMemcpyDtoDAsync_v2(Ptr d, Ptr s, size_t n, void* st) {
  return submit(st, [=] { if (simt_host_access((void*)s, n, 0) || simt_host_access((void*)d, n, 1)) return INVALID_VALUE; memcpy((void*)d, (void*)s, n); return SUCCESS; });
}
API CUresult cuMemsetD8Async(Ptr d, unsigned char v, size_t n, void* st) {
  return submit(st, [=] { if (simt_host_access((void*)d, n, 1)) return INVALID_VALUE; memset((void*)d, v, n); return SUCCESS; });
}

API CUresult cuModuleLoadData(void** m, const void*) { *m = new Module; return SUCCESS; }
API CUresult cuModuleUnload(void* m) { delete static_cast<Module*>(m); return SUCCESS; }
API CUresult cuModuleGetFunction(void** f, void* m, const char* name) {
  const char* signature = simt_signature(name);
  if (!signature) return NOT_FOUND;
  auto& slot = static_cast<Module*>(m)->functions[name];
  slot.name = name; slot.signature = signature;
  *f = &slot;
  return SUCCESS;
}
API CUresult cuFuncGetAttribute(int* v, int, void*) { *v = 0; return SUCCESS; }
API CUresult cuFuncSetAttribute(void* f, int a, int v) {
  if (a == 8) { if (v > 99 * 1024) return INVALID_VALUE; static_cast<Function*>(f)->max_dynamic = v; }   // MAX_DYNAMIC_SHARED_SIZE_BYTES
  return SUCCESS;
}
API CUresult cuLaunchKernel(void* fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned dynamic, void* stream, void** params, void**) {
  Function* f = static_cast<Function*>(fn);
  if (int(dynamic) > f->max_dynamic) return INVALID_VALUE;
  const Launch l0{{gx, gy, gz}, {bx, by, bz}, dynamic, 0, 0, 1};
  std::vector<uint64_t> values(f->signature.size());                     // arguments are copied at launch
  for (size_t i = 0; i < values.size(); i++) memcpy(&values[i], params[i], strchr("iuf", f->signature[i]) ? 4 : 8);
  return submit(stream, [=]() -> CUresult {
    Launch l = l0;
    const Schedule& s = schedule();
    l.order = s.order; l.seed = s.seed; l.threads = s.threads;
    std::vector<void*> args(values.size());
    for (size_t i = 0; i < args.size(); i++) args[i] = const_cast<uint64_t*>(&values[i]);
    char message[1200];
    return simt_launch(f->name.c_str(), &l, args.data(), message, sizeof message) ? fail(message) : SUCCESS;
  });
}

API CUresult cuEventCreate(void** e, unsigned) { *e = new Event; return SUCCESS; }
API CUresult cuEventDestroy_v2(void* e) { delete static_cast<Event*>(e); return SUCCESS; }
API CUresult cuEventRecord(void* e, void*) { static_cast<Event*>(e)->at = std::chrono::steady_clock::now(); return SUCCESS; }
API CUresult cuEventSynchronize(void*) { return SUCCESS; }
API CUresult cuEventQuery(void*) { return SUCCESS; }
API CUresult cuEventElapsedTime_v2(float* ms, void* a, void* b) {
  *ms = std::chrono::duration<float, std::milli>(static_cast<Event*>(b)->at - static_cast<Event*>(a)->at).count();
  return SUCCESS;
}

API CUresult cuStreamBeginCapture_v2(void* s, int) {
  if (stream_of(s) == &null_stream) return 900;                          // STREAM_CAPTURE_UNSUPPORTED
  stream_of(s)->capturing = true; stream_of(s)->recorded.clear();
  return SUCCESS;
}
API CUresult cuStreamEndCapture(void* s, void** g) {
  stream_of(s)->capturing = false;
  *g = new Graph{std::move(stream_of(s)->recorded)};
  return SUCCESS;
}
API CUresult cuStreamIsCapturing(void* s, int* v) { *v = stream_of(s)->capturing; return SUCCESS; }
API CUresult cuGraphInstantiateWithFlags(void** x, void* g, unsigned long long) { *x = new Graph(*static_cast<Graph*>(g)); return SUCCESS; }
API CUresult cuGraphUpload(void*, void*) { return SUCCESS; }
API CUresult cuGraphLaunch(void* x, void*) {
  for (auto& w : static_cast<Graph*>(x)->work) if (CUresult r = w()) return r;
  return SUCCESS;
}
API CUresult cuGraphDestroy(void* g) { delete static_cast<Graph*>(g); return SUCCESS; }
API CUresult cuGraphExecDestroy(void* g) { delete static_cast<Graph*>(g); return SUCCESS; }
