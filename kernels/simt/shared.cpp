// Shared memory: the library's thread-local segment, of which each OS thread that runs blocks has one.
//
// Nothing else in the library may be thread_local: the segment is filled with poison at every launch.
#include <link.h>

#include "runtime.h"

constexpr size_t CANARY = 256;
alignas(1024) thread_local unsigned char smem[simt::MAX_DYNAMIC + CANARY];

extern "C" void* __tls_get_addr(size_t*);

namespace simt {

constexpr unsigned char POISON = 0xff;

static size_t module, size;
static uintptr_t image_begin, image_end;

static int is_this_library(dl_phdr_info* info, size_t, void*) {
    uintptr_t begin = ~uintptr_t(0), end = 0;
    size_t tls = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto& header = info->dlpi_phdr[i];
        const uintptr_t address = info->dlpi_addr + header.p_vaddr;
        if (header.p_type == PT_LOAD) {
            begin = std::min(begin, address);
            end = std::max<uintptr_t>(end, address + header.p_memsz);
        }
        if (header.p_type == PT_TLS) tls = header.p_memsz;
    }
    const uintptr_t here = uintptr_t(&is_this_library);
    if (here < begin || here >= end) return 0;
    image_begin = begin;
    image_end = end;
    module = info->dlpi_tls_modid;
    size = tls;
    return 1;
}

void find_shared() { dl_iterate_phdr(is_this_library, nullptr); }

size_t shared_size() { return size; }

uintptr_t shared_base() {
    size_t index[2] = {module, 0};
    return uintptr_t(__tls_get_addr(index));
}

void fill_shared() { memset(reinterpret_cast<void*>(shared_base()), POISON, size); }

void fill_dynamic(size_t n) { memset(smem, POISON, n); }

bool dynamic_is_overrun(size_t n) {
    return std::any_of(smem + n, smem + n + CANARY, [](unsigned char byte) { return byte != POISON; });
}

uintptr_t dynamic_base() { return uintptr_t(smem); }

bool in_image(uintptr_t address, size_t n) { return address >= image_begin && address + n <= image_end; }

std::string shared_fault(const Block& b, uintptr_t address, size_t n) {
    const Worker* worker = worker_of(const_cast<Block*>(&b));
    if (address - worker->shared >= size || address + n > worker->shared + size) return "is not in shared memory";
    const uintptr_t dynamic = dynamic_base();
    if (address >= dynamic + sizeof smem || address + n <= dynamic || address + n <= dynamic + b.dynamic) return "";
    const std::string offset = std::to_string(address - dynamic);
    return "is at offset " + offset + " of " + std::to_string(b.dynamic) + " bytes of dynamic shared memory";
}

}  // namespace simt
