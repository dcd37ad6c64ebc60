// Device memory. Buffers begin and end at pages that cannot be accessed, and fresh ones are poison.
#include <sys/mman.h>

#include <cstdio>
#include <map>
#include <mutex>

#include "runtime.h"

namespace simt {

constexpr size_t PAGE = 4096, GUARD = 16 * PAGE, ALIGN = 16;
constexpr unsigned char POISON = 0xff;  // NaN in f16, f32 and f64, -1 in integers

static std::mutex memory_mutex;
static size_t allocated;
static std::atomic<unsigned> changes{1};
static std::map<uintptr_t, Buffer>& buffers() {
    static auto* all = new std::map<uintptr_t, Buffer>;
    return *all;
}

static size_t round_up(size_t n, size_t to) { return (n + to - 1) & ~(to - 1); }

// Pages come into being when they are touched.
static void* reserve(size_t bytes, int protection) {
    void* map = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? nullptr : map;
}

static size_t cell_bytes(size_t n) { return n * sizeof(Cell) + PAGE; }

Cell* zero_cells(size_t n) { return static_cast<Cell*>(reserve(cell_bytes(n), PROT_READ | PROT_WRITE)); }

unsigned memory_changes() { return changes; }

static std::pair<const uintptr_t, Buffer>* around(uintptr_t address) {
    auto next = buffers().upper_bound(address);
    if (next != buffers().end() && address >= next->second.map) return &*next;
    if (next == buffers().begin()) return nullptr;
    --next;
    return address < next->second.map + next->second.map_size ? &*next : nullptr;
}

std::pair<uintptr_t, Buffer> buffer_around(uintptr_t address) {
    std::lock_guard<std::mutex> lock(memory_mutex);
    const auto* found = around(address);
    return found ? std::pair<uintptr_t, Buffer>(*found) : std::pair<uintptr_t, Buffer>();
}

// The buffer that holds all of these bytes.
static std::pair<const uintptr_t, Buffer>* holding(uintptr_t address, size_t n) {
    auto* found = around(address);
    if (!found || address < found->first) return nullptr;
    const size_t offset = address - found->first, size = found->second.size;
    return offset <= size && n <= size - offset ? found : nullptr;
}

std::string describe(uintptr_t address) {
    const auto [start, b] = buffer_around(address);
    char text[200];
    if (!start) snprintf(text, sizeof text, "address 0x%zx is in no device buffer", size_t(address));
    else if (address < start)
        snprintf(text, sizeof text, "%zu bytes before the start of a device buffer of %zu bytes", start - address, b.size);
    else if (address < start + b.size)
        snprintf(text, sizeof text, "offset %zu of a device buffer of %zu bytes", address - start, b.size);
    else
        snprintf(text, sizeof text, "%zu bytes past the end of a device buffer of %zu bytes", address - start - b.size, b.size);
    return text;
}

std::string overrun() {
    std::lock_guard<std::mutex> lock(memory_mutex);
    std::string found;
    for (auto& [start, b] : buffers())
        for (uintptr_t p = start + b.size; p % ALIGN; p++) {
            auto& byte = *reinterpret_cast<unsigned char*>(p);
            if (byte == POISON) continue;
            found = "a thread wrote past the end of a device buffer of " + std::to_string(b.size) + " bytes";
            byte = POISON;  // the next launch is not to be blamed
        }
    return found;
}

void forget_accesses() {
    std::lock_guard<std::mutex> lock(memory_mutex);
    for (auto& [start, b] : buffers())
        if (b.cells) madvise(b.cells, cell_bytes(b.size), MADV_DONTNEED);
}

}  // namespace simt

using namespace simt;

EXPORT void* simt_alloc(size_t size) {
    std::lock_guard<std::mutex> lock(memory_mutex);
    if (size > TOTAL_MEMORY - allocated) return nullptr;
    const size_t body = round_up(size, ALIGN), pages = std::max(round_up(body, PAGE), PAGE), map_size = pages + 2 * GUARD;
    const uintptr_t map = uintptr_t(reserve(map_size, PROT_NONE));
    if (!map) return nullptr;
    mprotect(reinterpret_cast<void*>(map + GUARD), pages, PROT_READ | PROT_WRITE);
    memset(reinterpret_cast<void*>(map + GUARD), POISON, pages);
    Buffer b{size, map, map_size, nullptr, nullptr};
    if (CHECKED) {
        b.cells = zero_cells(size);
        b.init = static_cast<unsigned char*>(reserve(size + PAGE, PROT_READ | PROT_WRITE));
    }
    const uintptr_t start = map + GUARD + pages - body;
    buffers()[start] = b;
    allocated += size;
    changes++;
    return reinterpret_cast<void*>(start);
}

EXPORT int simt_free(void* address) {
    std::lock_guard<std::mutex> lock(memory_mutex);
    const auto found = buffers().find(uintptr_t(address));
    if (found == buffers().end()) return 1;
    const Buffer& b = found->second;
    munmap(reinterpret_cast<void*>(b.map), b.map_size);
    if (b.cells) munmap(b.cells, cell_bytes(b.size));
    if (b.init) munmap(b.init, b.size + PAGE);
    allocated -= b.size;
    buffers().erase(found);
    changes++;
    return 0;
}

EXPORT int simt_live_buffers() {
    std::lock_guard<std::mutex> lock(memory_mutex);
    return int(buffers().size());
}

EXPORT size_t simt_free_memory() {
    std::lock_guard<std::mutex> lock(memory_mutex);
    return TOTAL_MEMORY - allocated;
}

EXPORT int simt_host_access(void* address, size_t n, int write) {
    std::lock_guard<std::mutex> lock(memory_mutex);
    const auto* found = holding(uintptr_t(address), n);
    if (!found) return 1;
    const Buffer& b = found->second;
    if (write && b.init) memset(b.init + (uintptr_t(address) - found->first), 1, n);
    return 0;
}

// What was not written is not written in the copy either.
EXPORT int simt_device_copy(void* to, const void* from, size_t n) {
    std::lock_guard<std::mutex> lock(memory_mutex);
    const auto *a = holding(uintptr_t(to), n), *b = holding(uintptr_t(from), n);
    if (!a || !b) return 1;
    memmove(to, from, n);
    if (CHECKED) memmove(a->second.init + (uintptr_t(to) - a->first), b->second.init + (uintptr_t(from) - b->first), n);
    return 0;
}
