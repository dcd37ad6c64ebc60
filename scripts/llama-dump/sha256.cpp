// The hash of a file.

#include "sha256.h"

#include "text.h"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <vector>

namespace lockstep {

namespace {

std::string hex(const Sha256::Digest & digest) {
    std::string out;
    for (const uint8_t byte : digest) {
        char two[3];
        std::snprintf(two, sizeof two, "%02x", byte);
        out += two;
    }
    return out;
}

}  // namespace

std::string sha256_file(const std::string & path) {
    std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "rb"), std::fclose);
    if (!file) {
        fail("cannot open model " + path + ": " + std::strerror(errno));
    }
    Sha256 sha;
    std::vector<uint8_t> buffer(1 << 20);
    uint64_t done = 0;
    for (size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), file.get())) > 0;) {
        sha.update(buffer.data(), n);
        done += n;
        if (done % (uint64_t(1) << 30) == 0) {
            std::fprintf(stderr, "llama-dump: hashing the model, %llu GiB\n", static_cast<unsigned long long>(done >> 30));
        }
    }
    if (std::ferror(file.get())) {
        fail("cannot read model " + path);
    }
    return hex(sha.finish());
}

}  // namespace lockstep
