// The driver: the one device, its context, and texts of errors.
#include <cstring>

#include "driver.h"

using namespace driver;

// CUdevice_attribute
enum {
    MAX_THREADS_PER_BLOCK = 1,
    MAX_SHARED_MEMORY_PER_BLOCK = 8,
    WARP_SIZE = 10,
    MULTIPROCESSOR_COUNT = 16,
    COMPUTE_CAPABILITY_MAJOR = 75,
    COMPUTE_CAPABILITY_MINOR = 76,
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    MEMORY_POOLS_SUPPORTED = 115,
};

EXPORT Result cuInit(unsigned) { return SUCCESS; }
EXPORT Result cuDriverGetVersion(int* version) {
    *version = 13000;
    return SUCCESS;
}

EXPORT Result cuGetErrorName(Result error, const char** name) {
    switch (error) {
        case SUCCESS: *name = "CUDA_SUCCESS"; break;
        case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; break;
        case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
        case INVALID_DEVICE: *name = "CUDA_ERROR_INVALID_DEVICE"; break;
        case NOT_FOUND: *name = "CUDA_ERROR_NOT_FOUND"; break;
        case LAUNCH_FAILED: *name = "CUDA_ERROR_LAUNCH_FAILED"; break;
        case CAPTURE_UNSUPPORTED: *name = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"; break;
        case CAPTURE_INVALIDATED: *name = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"; break;
        default: *name = "CUDA_ERROR_UNKNOWN";
    }
    return SUCCESS;
}
EXPORT Result cuGetErrorString(Result error, const char** text) {
    if (error != LAUNCH_FAILED) return cuGetErrorName(error, text);
    *text = host_thread().last_error.c_str();
    return SUCCESS;
}

EXPORT Result cuDeviceGetCount(int* count) {
    *count = 1;
    return SUCCESS;
}
EXPORT Result cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return ordinal == 0 ? SUCCESS : INVALID_DEVICE;
}
EXPORT Result cuDeviceGetName(char* name, int size, int) {
    if (size <= 0) return INVALID_VALUE;
    strncpy(name, "SIMT emulator", size_t(size));
    name[size - 1] = 0;
    return SUCCESS;
}
EXPORT Result cuDeviceGetUuid_v2(unsigned char* uuid, int) {
    memcpy(uuid, "SIMT emulator   ", 16);
    return SUCCESS;
}
EXPORT Result cuDeviceTotalMem_v2(size_t* bytes, int) {
    *bytes = simt::TOTAL_MEMORY;
    return SUCCESS;
}
EXPORT Result cuDeviceGetAttribute(int* value, int attribute, int) {
    switch (attribute) {
        case MAX_THREADS_PER_BLOCK: *value = 1024; break;
        case MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 * 1024; break;
        case WARP_SIZE: *value = 32; break;
        case MULTIPROCESSOR_COUNT: *value = 2; break;
        case COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
        case COMPUTE_CAPABILITY_MINOR: *value = 0; break;
        case MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = int(simt::MAX_DYNAMIC); break;
        case MEMORY_POOLS_SUPPORTED: *value = 1; break;
        default: *value = 0;
    }
    return SUCCESS;
}

// There is one context, and it is always current.
EXPORT Result cuDevicePrimaryCtxRetain(void** context, int) {
    *context = &null_stream;
    return SUCCESS;
}
EXPORT Result cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
EXPORT Result cuCtxSetCurrent(void*) { return SUCCESS; }
EXPORT Result cuCtxGetCurrent(void** context) {
    *context = &null_stream;
    return SUCCESS;
}
EXPORT Result cuCtxSynchronize() { return forbidden_in_capture(); }
