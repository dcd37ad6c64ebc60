// The driver: memory of the device, pinned memory of the host, copies.
#include <cstdlib>
#include <cstring>

#include "driver.h"

using namespace driver;

static void* at(Address address) { return reinterpret_cast<void*>(address); }
static Result checked(int refused) { return refused ? INVALID_VALUE : SUCCESS; }

EXPORT Result cuMemGetInfo_v2(size_t* free, size_t* total) {
    *free = simt_free_memory();
    *total = simt::TOTAL_MEMORY;
    return SUCCESS;
}

static Result allocate(Address* address, size_t size) {
    if (size == 0) return INVALID_VALUE;
    *address = Address(simt_alloc(size));
    return *address ? SUCCESS : OUT_OF_MEMORY;
}
EXPORT Result cuMemAlloc_v2(Address* address, size_t size) {
    const Result forbidden = forbidden_in_capture();
    return forbidden ? forbidden : allocate(address, size);
}
EXPORT Result cuMemFree_v2(Address address) {
    const Result forbidden = forbidden_in_capture();
    return forbidden ? forbidden : address ? checked(simt_free(at(address))) : SUCCESS;
}
// A GPU records these two in a graph; here they are refused.
EXPORT Result cuMemAllocAsync(Address* address, size_t size, void* stream) {
    return stream_of(stream)->capturing ? CAPTURE_UNSUPPORTED : allocate(address, size);
}
EXPORT Result cuMemFreeAsync(Address address, void* stream) {
    return stream_of(stream)->capturing ? CAPTURE_UNSUPPORTED : checked(simt_free(at(address)));
}

EXPORT Result cuMemHostAlloc(void** memory, size_t size, unsigned) {
    *memory = malloc(size ? size : 1);
    return *memory ? SUCCESS : OUT_OF_MEMORY;
}
EXPORT Result cuMemAllocHost_v2(void** memory, size_t size) { return cuMemHostAlloc(memory, size, 0); }
EXPORT Result cuMemFreeHost(void* memory) {
    free(memory);
    return SUCCESS;
}

static Result to_device(Address to, const void* from, size_t n) {
    if (simt_host_access(at(to), n, 1)) return INVALID_VALUE;
    memcpy(at(to), from, n);
    return SUCCESS;
}
static Result to_host(void* to, Address from, size_t n) {
    if (simt_host_access(at(from), n, 0)) return INVALID_VALUE;
    memcpy(to, at(from), n);
    return SUCCESS;
}
static Result on_device(Address to, Address from, size_t n) { return checked(simt_device_copy(at(to), at(from), n)); }
static Result fill(Address to, unsigned char value, size_t n) {
    if (simt_host_access(at(to), n, 1)) return INVALID_VALUE;
    memset(at(to), value, n);
    return SUCCESS;
}

EXPORT Result cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t n, void* stream) {
    return submit(stream, [=] { return to_device(to, from, n); });
}
EXPORT Result cuMemcpyDtoHAsync_v2(void* to, Address from, size_t n, void* stream) {
    return submit(stream, [=] { return to_host(to, from, n); });
}
EXPORT Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t n, void* stream) {
    return submit(stream, [=] { return on_device(to, from, n); });
}
EXPORT Result cuMemsetD8Async(Address to, unsigned char value, size_t n, void* stream) {
    return submit(stream, [=] { return fill(to, value, n); });
}

static Result unless_forbidden(Work work) {
    const Result forbidden = forbidden_in_capture();
    return forbidden ? forbidden : work();
}
EXPORT Result cuMemcpyHtoD_v2(Address to, const void* from, size_t n) {
    return unless_forbidden([=] { return to_device(to, from, n); });
}
EXPORT Result cuMemcpyDtoH_v2(void* to, Address from, size_t n) {
    return unless_forbidden([=] { return to_host(to, from, n); });
}
EXPORT Result cuMemcpyDtoD_v2(Address to, Address from, size_t n) {
    return unless_forbidden([=] { return on_device(to, from, n); });
}
EXPORT Result cuMemsetD8_v2(Address to, unsigned char value, size_t n) {
    return unless_forbidden([=] { return fill(to, value, n); });
}
