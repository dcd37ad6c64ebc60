// Checksums, and what is left of a file when a signal ends the program.

#include "zip.h"

#include <array>

#include <unistd.h>

namespace lockstep {

uint32_t crc32(uint32_t crc, const uint8_t * data, size_t size) {
    static const auto tables = [] {
        std::array<std::array<uint32_t, 256>, 8> t{};
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) {
                c = (c >> 1) ^ (c & 1 ? 0xEDB88320u : 0);
            }
            t[0][i] = c;
        }
        for (uint32_t i = 0; i < 256; i++) {
            for (size_t k = 1; k < 8; k++) {
                t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 255];
            }
        }
        return t;
    }();
    crc = ~crc;
    for (; size >= 8; size -= 8, data += 8) {  // eight bytes at a time, one table per byte position
        uint32_t next = 0;
        for (size_t k = 0; k < 8; k++) {
            const uint32_t byte = data[k] ^ (k < 4 ? (crc >> (8 * k)) & 255 : 0);
            next ^= tables[7 - k][byte];
        }
        crc = next;
    }
    for (; size > 0; size--, data++) {
        crc = (crc >> 8) ^ tables[0][(crc ^ *data) & 255];
    }
    return ~crc;
}

char unfinished_path[4096];

void remove_unfinished(int signal) {
    if (unfinished_path[0] != 0) {
        unlink(unfinished_path);
    }
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

}  // namespace lockstep
