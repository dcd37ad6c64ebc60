// llama-dump: runs a model in llama.cpp and writes every tensor of the run, with the graph that made them, as one .npz file.
//
// The format is described in docs/dump-format.md. The file is a zip whose entries are stored, so payloads stream to disk one
// tensor at a time; in memory are the largest tensor, the hashes of what was written, and the text of the manifest.
//
// Needs llama.h and the ggml headers of a llama.cpp tree from 2025 or later, its libraries, and a C++17 compiler.

#include "ggml-backend.h"
#include "ggml.h"
#include "llama.h"

#if __has_include(<gnu/libc-version.h>)
#include <gnu/libc-version.h>
#endif

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unistd.h>

#ifndef LOCKSTEP_LLAMA_BUILD
#define LOCKSTEP_LLAMA_BUILD 0
#endif
#ifndef LOCKSTEP_LLAMA_COMMIT
#define LOCKSTEP_LLAMA_COMMIT "unknown"
#endif

namespace {

constexpr const char * DUMPER = "llama-dump 1";
constexpr int EXIT_CANNOT_RUN = 2;
constexpr int EXIT_CHANGED = 3;

// ---------------------------------------------------------------------------------------------------------------------
// What differs between llama.cpp trees. Each setter returns false where the tree has no such field, so that the caller can
// tell "set" from "this tree does not know it".

namespace compat {

#define LOCKSTEP_OPTIONAL_FIELD(field)                                                     \
    template <class Params>                                                                \
    auto set_##field(Params & params, long value, int)->decltype((void) params.field, true) { \
        params.field = static_cast<std::remove_reference_t<decltype(params.field)>>(value); \
        return true;                                                                       \
    }                                                                                      \
    template <class Params>                                                                \
    bool set_##field(Params &, long, long) {                                               \
        return false;                                                                      \
    }

LOCKSTEP_OPTIONAL_FIELD(flash_attn_type)  // an enum since late 2025: auto -1, off 0, on 1
LOCKSTEP_OPTIONAL_FIELD(flash_attn)       // a bool before that
LOCKSTEP_OPTIONAL_FIELD(use_extra_bufts)  // weight repacking
LOCKSTEP_OPTIONAL_FIELD(load_mtp)
LOCKSTEP_OPTIONAL_FIELD(n_rs_seq)
LOCKSTEP_OPTIONAL_FIELD(op_offload)

#undef LOCKSTEP_OPTIONAL_FIELD

/// The kind of a gated linear unit, where the tree has such an operator.
template <class Tensor>
auto glu_name(const Tensor * tensor, int) -> decltype(ggml_glu_op_name(ggml_get_glu_op(tensor))) {
    return ggml_glu_op_name(ggml_get_glu_op(tensor));
}
template <class Tensor>
const char * glu_name(const Tensor *, long) {
    return nullptr;
}

/// Whether llama.cpp evaluates the node. Trees that build alternative branches into one graph flag the nodes of the chosen
/// one; the others keep whatever their memory held before, and are no part of the computation.
template <class Flag = ggml_tensor_flag>
auto is_evaluated(const ggml_tensor * tensor, int) -> decltype((void) Flag::GGML_TENSOR_FLAG_COMPUTE, true) {
    return (tensor->flags & Flag::GGML_TENSOR_FLAG_COMPUTE) != 0;
}
template <class Flag = ggml_tensor_flag>
bool is_evaluated(const ggml_tensor *, long) {
    return true;
}

}  // namespace compat

// ---------------------------------------------------------------------------------------------------------------------
// Small tools: errors, text, JSON.

[[noreturn]] void fail(const std::string & message) {
    throw std::runtime_error(message);
}

bool all_digits(const std::string & text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool starts_with(const std::string & text, const char * prefix) {
    return text.rfind(prefix, 0) == 0;
}

/// Length of the valid UTF-8 sequence at `at`, or 0 when there is none.
size_t utf8_length(const std::string & text, size_t at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const size_t length = byte < 0x80 ? 1 : byte < 0xC2 ? 0 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : byte < 0xF5 ? 4 : 0;
    if (length == 0 || at + length > text.size()) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((static_cast<unsigned char>(text[at + i]) & 0xC0) != 0x80) {
            return 0;
        }
    }
    const auto second = length > 1 ? static_cast<unsigned char>(text[at + 1]) : 0;
    const bool overlong = (byte == 0xE0 && second < 0xA0) || (byte == 0xF0 && second < 0x90);
    const bool outside = (byte == 0xED && second > 0x9F) || (byte == 0xF4 && second > 0x8F);
    return overlong || outside ? 0 : length;
}

std::string quote(const std::string & text) {
    static const char CONTROLS[] = "\b\f\n\r\t", LETTERS[] = "bfnrt";
    std::string out = "\"";
    for (size_t i = 0; i < text.size();) {
        const size_t length = utf8_length(text, i);
        const char c = text[i];
        if (length == 0) {
            out += "\xEF\xBF\xBD";  // the replacement character
        } else if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (const char * known = std::strchr(CONTROLS, c); known && c != 0) {
            out += '\\';
            out += LETTERS[known - CONTROLS];
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
            out += escaped;
        } else {
            out.append(text, i, length);
        }
        i += length == 0 ? 1 : length;
    }
    return out + '"';
}

const char * boolean(bool value) {
    return value ? "true" : "false";
}

template <class Items, class Format>
std::string json_list(const Items & items, Format format) {
    std::string out = "[";
    for (const auto & item : items) {
        if (out.size() > 1) {
            out += ',';
        }
        out += format(item);
    }
    return out + ']';
}

template <class Items>
std::string json_numbers(const Items & items) {
    return json_list(items, [](auto value) { return std::to_string(value); });
}

std::string float_text(float value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

// ---------------------------------------------------------------------------------------------------------------------
// SHA-256 (FIPS 180-4): names the model file, and finds payloads that were already written.

class Sha256 {
public:
    using Digest = std::array<uint8_t, 32>;

    void update(const void * data, size_t size) {
        auto bytes = static_cast<const uint8_t *>(data);
        total_ += size;
        while (size > 0) {
            if (fill_ == 0 && size >= sizeof block_) {
                compress(bytes);
                bytes += sizeof block_;
                size -= sizeof block_;
                continue;
            }
            const size_t taken = std::min(size, sizeof block_ - fill_);
            std::memcpy(block_ + fill_, bytes, taken);
            fill_ += taken;
            bytes += taken;
            size -= taken;
            if (fill_ == sizeof block_) {
                compress(block_);
                fill_ = 0;
            }
        }
    }

    Digest finish() {
        const uint64_t bits = total_ * 8;
        const uint8_t one = 0x80, zero = 0;
        update(&one, 1);
        while (fill_ != 56) {
            update(&zero, 1);
        }
        uint8_t length[8];
        for (int i = 0; i < 8; i++) {
            length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
        }
        update(length, sizeof length);
        Digest digest;
        for (size_t i = 0; i < digest.size(); i++) {
            digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
        }
        return digest;
    }

private:
    static uint32_t rotate(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

    void compress(const uint8_t * block) {
        static const uint32_t K[64] = {
            0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
            0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
            0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
            0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
            0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
            0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
        };
        uint32_t w[64];
        for (int i = 0; i < 16; i++) {
            w[i] = uint32_t(block[4 * i]) << 24 | uint32_t(block[4 * i + 1]) << 16 | uint32_t(block[4 * i + 2]) << 8 | block[4 * i + 3];
        }
        for (int i = 16; i < 64; i++) {
            const uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >> 3);
            const uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >> 10);
            w[i] = w[i - 16] + s0 + w[i - 7] + s1;
        }
        uint32_t s[8];
        std::memcpy(s, state_, sizeof s);
        for (int i = 0; i < 64; i++) {
            const uint32_t s1 = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
            const uint32_t t1 = s[7] + s1 + ((s[4] & s[5]) ^ (~s[4] & s[6])) + K[i] + w[i];
            const uint32_t s0 = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
            const uint32_t t2 = s0 + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
            std::memmove(s + 1, s, 7 * sizeof s[0]);
            s[4] += t1;
            s[0] = t1 + t2;
        }
        for (int i = 0; i < 8; i++) {
            state_[i] += s[i];
        }
    }

    uint32_t state_[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    uint8_t block_[64];
    size_t fill_ = 0;
    uint64_t total_ = 0;
};

std::string hex(const Sha256::Digest & digest) {
    std::string out;
    for (const uint8_t byte : digest) {
        char two[3];
        std::snprintf(two, sizeof two, "%02x", byte);
        out += two;
    }
    return out;
}

/// The hash of the file that was named. Of a split model that is the first part, which holds the metadata.
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

// ---------------------------------------------------------------------------------------------------------------------
// The container: a zip of stored entries, every entry's data on a 64-byte boundary.

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

/// Little-endian bytes of a zip record.
class Record {
public:
    Record & u16(uint64_t value) { return put(value, 2); }
    Record & u32(uint64_t value) { return put(value, 4); }
    Record & u64(uint64_t value) { return put(value, 8); }
    Record & text(const std::string & value) {
        bytes_.insert(bytes_.end(), value.begin(), value.end());
        return *this;
    }
    Record & bytes(const std::vector<uint8_t> & value) {
        bytes_.insert(bytes_.end(), value.begin(), value.end());
        return *this;
    }
    const std::vector<uint8_t> & get() const { return bytes_; }

private:
    Record & put(uint64_t value, int size) {
        for (int i = 0; i < size; i++) {
            bytes_.push_back(static_cast<uint8_t>(value >> (8 * i)));
        }
        return *this;
    }
    std::vector<uint8_t> bytes_;
};

// What a signal handler must remove; set while a file is being written.
char unfinished_path[4096];

void remove_unfinished(int signal) {
    if (unfinished_path[0] != 0) {
        unlink(unfinished_path);
    }
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

/// Writes to `<path>.part`; `commit` gives the file its name, and a writer that is dropped before that removes it.
class ZipWriter {
public:
    explicit ZipWriter(std::string path) : path_(std::move(path)), part_(path_ + ".part") {
        if (part_.size() >= sizeof unfinished_path) {
            fail("the path is too long: " + path_);
        }
        file_ = std::fopen(part_.c_str(), "wb");
        if (!file_) {
            fail("cannot write " + part_ + ": " + std::strerror(errno));
        }
        std::strcpy(unfinished_path, part_.c_str());
        for (const int signal : { SIGINT, SIGTERM, SIGHUP, SIGABRT }) {
            std::signal(signal, remove_unfinished);
        }
    }
    ZipWriter(const ZipWriter &) = delete;
    ZipWriter & operator=(const ZipWriter &) = delete;
    ~ZipWriter() {
        if (file_) {
            std::fclose(file_);
        }
        if (!committed_) {
            std::remove(part_.c_str());
        }
        unfinished_path[0] = 0;
    }

    /// One entry made of two consecutive pieces.
    void add(const std::string & name, const std::vector<uint8_t> & head, const uint8_t * body, size_t body_size) {
        Entry entry;
        entry.name = name;
        entry.offset = offset_;
        entry.size = head.size() + body_size;
        entry.crc = crc32(crc32(0, head.data(), head.size()), body, body_size);
        write(local_header(entry).get());
        write(head);
        write(body, body_size);
        entries_.push_back(std::move(entry));
    }

    uint64_t size() const { return offset_; }

    void commit() {
        write_directory();
        const bool closed = std::fclose(file_) == 0;
        file_ = nullptr;
        if (!closed || std::rename(part_.c_str(), path_.c_str()) != 0) {
            fail("cannot finish " + path_ + ": " + std::strerror(errno));
        }
        committed_ = true;
    }

private:
    static constexpr uint64_t ALIGNMENT = 64;
    static constexpr uint64_t MAX32 = 0xFFFFFFFF;
    static constexpr uint16_t ALIGN_FIELD = 0xD935;  // the extra field that zip-align tools use for padding
    static constexpr uint16_t ZIP64_FIELD = 1;
    static constexpr uint16_t VERSION = 20, VERSION_ZIP64 = 45;
    static constexpr uint16_t DATE_1980 = 0x0021;  // a fixed date, so that equal runs give equal files

    struct Entry {
        std::string name;
        uint64_t offset = 0, size = 0;
        uint32_t crc = 0;
    };

    /// The fields that the local header and the central directory share, from "version needed" to "uncompressed size".
    static void common_fields(Record & record, const Entry & entry, bool zip64) {
        const uint64_t size = entry.size >= MAX32 ? MAX32 : entry.size;
        record.u16(zip64 ? VERSION_ZIP64 : VERSION).u16(0).u16(0).u16(0).u16(DATE_1980).u32(entry.crc).u32(size).u32(size);
    }

    Record local_header(const Entry & entry) const {
        constexpr uint64_t FIXED = 30;
        Record extra;
        const bool zip64 = entry.size >= MAX32;
        if (zip64) {
            extra.u16(ZIP64_FIELD).u16(16).u64(entry.size).u64(entry.size);
        }
        const uint64_t unpadded = offset_ + FIXED + entry.name.size() + extra.get().size();
        uint64_t padding = (ALIGNMENT - unpadded % ALIGNMENT) % ALIGNMENT;
        if (padding > 0) {
            constexpr uint64_t SMALLEST = 6;  // id, length, and the alignment itself
            padding += padding < SMALLEST ? ALIGNMENT : 0;
            extra.u16(ALIGN_FIELD).u16(padding - 4).u16(ALIGNMENT);
            extra.bytes(std::vector<uint8_t>(padding - SMALLEST));
        }
        Record record;
        record.u32(0x04034b50);
        common_fields(record, entry, zip64);
        record.u16(entry.name.size()).u16(extra.get().size()).text(entry.name).bytes(extra.get());
        return record;
    }

    void write_directory() {
        const uint64_t start = offset_;
        for (const Entry & entry : entries_) {
            Record zip64;
            if (entry.size >= MAX32) {
                zip64.u64(entry.size).u64(entry.size);
            }
            if (entry.offset >= MAX32) {
                zip64.u64(entry.offset);
            }
            Record extra;
            if (!zip64.get().empty()) {
                extra.u16(ZIP64_FIELD).u16(zip64.get().size()).bytes(zip64.get());
            }
            Record record;
            record.u32(0x02014b50).u16(VERSION_ZIP64);
            common_fields(record, entry, !zip64.get().empty());
            record.u16(entry.name.size()).u16(extra.get().size()).u16(0).u16(0).u16(0).u32(0);
            record.u32(std::min(entry.offset, MAX32)).text(entry.name).bytes(extra.get());
            write(record.get());
        }
        write_end(start, offset_ - start);
    }

    void write_end(uint64_t start, uint64_t size) {
        const uint64_t count = entries_.size();
        if (count >= 0xFFFF || start >= MAX32 || size >= MAX32) {
            const uint64_t end64 = offset_;
            Record record;
            record.u32(0x06064b50).u64(44).u16(VERSION_ZIP64).u16(VERSION_ZIP64).u32(0).u32(0);
            record.u64(count).u64(count).u64(size).u64(start);
            record.u32(0x07064b50).u32(0).u64(end64).u32(1);
            write(record.get());
        }
        const uint64_t count16 = std::min<uint64_t>(count, 0xFFFF);
        Record record;
        record.u32(0x06054b50).u16(0).u16(0).u16(count16).u16(count16).u32(std::min(size, MAX32)).u32(std::min(start, MAX32)).u16(0);
        write(record.get());
    }

    void write(const std::vector<uint8_t> & bytes) { write(bytes.data(), bytes.size()); }

    void write(const uint8_t * data, size_t size) {
        if (size > 0 && std::fwrite(data, 1, size, file_) != size) {
            fail("cannot write " + part_ + ": " + std::strerror(errno));
        }
        offset_ += size;
    }

    std::string path_, part_;
    std::FILE * file_ = nullptr;
    uint64_t offset_ = 0;
    bool committed_ = false;
    std::vector<Entry> entries_;
};

/// Names payloads, writes each distinct one once, and finishes with the manifest.
class NpzWriter {
public:
    explicit NpzWriter(const std::string & path) : zip_(path) {}

    /// `wanted` without characters that a file name cannot have, and unlike every name given before.
    std::string unique_name(const std::string & wanted) {
        std::string base = wanted;
        for (char & c : base) {
            const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("._-/", c) != nullptr;
            c = plain ? c : '_';
        }
        std::string name = base;
        for (int n = 2; !names_.insert(name).second; n++) {
            name = base + "~" + std::to_string(n);
        }
        return name;
    }

    void add(const std::string & name, const std::string & descr, const std::vector<int64_t> & shape, const std::vector<uint8_t> & payload) {
        zip_.add(name + ".npy", npy_header(descr, shape), payload.data(), payload.size());
        count_++;
    }

    /// Like `add` under a name made from `wanted`, unless a payload of the same kind and bytes is in the file already.
    /// Returns the name under which the payload can be found.
    std::string add_once(const std::string & wanted, const std::string & kind, const std::string & descr, const std::vector<int64_t> & shape,
                         const std::vector<uint8_t> & payload) {
        Sha256 sha;
        sha.update(kind.c_str(), kind.size() + 1);
        sha.update(payload.data(), payload.size());
        const Sha256::Digest digest = sha.finish();
        const std::string key(digest.begin(), digest.begin() + 16);  // 128 bits are enough never to meet a collision
        const auto found = by_content_.find(key);
        if (found != by_content_.end()) {
            return found->second;
        }
        const std::string name = unique_name(wanted);
        add(name, descr, shape, payload);
        by_content_.emplace(key, name);
        return name;
    }

    void finish(const std::string & manifest) {
        zip_.add("manifest.json", {}, reinterpret_cast<const uint8_t *>(manifest.data()), manifest.size());
        zip_.commit();
    }

    size_t count() const { return count_; }
    uint64_t size() const { return zip_.size(); }

private:
    static std::vector<uint8_t> npy_header(const std::string & descr, const std::vector<int64_t> & shape) {
        std::string dims;
        for (const int64_t extent : shape) {
            dims += (dims.empty() ? "" : ", ") + std::to_string(extent);
        }
        if (shape.size() == 1) {
            dims += ',';
        }
        std::string text = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + dims + "), }";
        constexpr size_t PREFIX = 10;  // magic, version, length of the text
        text.append(63 - (PREFIX + text.size()) % 64, ' ');
        text += '\n';
        Record record;
        record.text("\x93NUMPY").u16(0x0001).u16(text.size()).text(text);
        return record.get();
    }

    ZipWriter zip_;
    size_t count_ = 0;
    std::set<std::string> names_;
    std::unordered_map<std::string, std::string> by_content_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Options.

struct Filter {
    std::string text;  // as given
    int64_t first_step = 0, last_step = INT64_MAX;
    std::regex pattern;

    bool matches(int64_t step, const std::string & name) const {
        return step >= first_step && step <= last_step && std::regex_search(name, pattern);
    }
};

struct Options {
    std::string model, out, prompt;
    bool has_prompt = false;
    std::vector<llama_token> tokens;
    std::vector<int32_t> schedule;
    int32_t generate = 0;
    std::vector<Filter> filters;
    std::string until;
    std::regex until_pattern;
    bool named = false, views = false, all_logits = false;
    int32_t threads = 1;
    uint32_t n_ctx = 0;
    ggml_type type_k = GGML_TYPE_F32, type_v = GGML_TYPE_F32;
    bool flash_attn = false, repack = false, reference_kernels = false;
};

const char * const HELP =
    R"(llama-dump: run a model in llama.cpp and write every tensor of the run, with its graph, as one .npz file

usage: llama-dump -m MODEL (-t IDS | -p TEXT) --out FILE.npz [options]

  -m, --model FILE         a GGUF file; of a split model the first part (whose hash then stands for the model)
  -t, --tokens 1,2,3       token ids
  -p, --prompt TEXT        text, for a model with a tokenizer; special tokens are added and parsed
      --out FILE.npz       written under a temporary name and renamed at the end
      --schedule 7,1,1     how many tokens go into each ubatch; must add up to the tokens (default: one ubatch)
      --generate N         then append N greedy tokens, each a step of its own
      --filter REGEX       store tensors whose name contains a match (ECMAScript, case-sensitive); may be repeated, any may match.
                           A leading step or range limits it: "0:REGEX", "1-3:REGEX", "2-:REGEX"
      --until REGEX        record the graph of each step only up to its first tensor whose name contains a match
      --named              store only tensors that llama.cpp gives a name
      --views              store every view as an entry of its own, views of caches too
      --all-logits         ask for the logits of every token, not only of the last of each ubatch
      --threads N          (default 1)
      --ctx N              context size (default: the tokens, rounded up to 256)
      --type-k T           type of the K cache (default f32)
      --type-v T           type of the V cache (default f32)
      --flash-attn on|off  (default off: with it, K and V are rounded to f16 even in an f32 cache)
      --repack on|off      repacked weights (default off)
      --reference-kernels  the CPU backend's plain kernels, without tiling: every node is computed again with them
  -h, --help

exit status: 0 written; 2 could not run, nothing written; 3 written, but capturing changed the logits
)";

int64_t parse_integer(const std::string & flag, const std::string & text, int64_t low, int64_t high) {
    errno = 0;
    char * end = nullptr;
    const long long value = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end != 0 || errno != 0 || value < low || value > high) {
        fail(flag + ": expected a number from " + std::to_string(low) + " to " + std::to_string(high) + ", got '" + text + "'");
    }
    return value;
}

template <class Number>
std::vector<Number> parse_list(const std::string & flag, const std::string & text, int64_t low) {
    std::vector<Number> out;
    for (size_t at = 0; at <= text.size();) {
        const size_t comma = std::min(text.find(',', at), text.size());
        out.push_back(static_cast<Number>(parse_integer(flag, text.substr(at, comma - at), low, INT32_MAX)));
        at = comma + 1;
    }
    return out;
}

bool parse_switch(const std::string & flag, const std::string & text) {
    if (text != "on" && text != "off") {
        fail(flag + ": expected on or off, got '" + text + "'");
    }
    return text == "on";
}

ggml_type parse_type(const std::string & flag, const std::string & text) {
    for (int i = 0; i < GGML_TYPE_COUNT; i++) {
        const auto type = static_cast<ggml_type>(i);
        const char * name = ggml_type_name(type);
        if (name && text == name && ggml_blck_size(type) > 0) {
            return type;
        }
    }
    fail(flag + ": unknown type '" + text + "'");
}

Filter parse_filter(const std::string & text) {
    static const std::regex prefix("^([0-9]+)(-([0-9]*))?:");
    Filter filter;
    filter.text = text;
    std::smatch match;
    std::string pattern = text;
    if (std::regex_search(text, match, prefix)) {
        filter.first_step = parse_integer("--filter", match[1], 0, INT32_MAX);
        const bool range = match[2].matched, open = range && match[3].length() == 0;
        filter.last_step = !range ? filter.first_step : open ? INT64_MAX : parse_integer("--filter", match[3], filter.first_step, INT32_MAX);
        pattern = match.suffix();
    }
    try {
        filter.pattern = std::regex(pattern, std::regex::ECMAScript | std::regex::optimize);
    } catch (const std::regex_error & error) {
        fail("--filter: '" + pattern + "' is not a regular expression: " + error.what());
    }
    return filter;
}

std::regex parse_until(const std::string & text) {
    try {
        return std::regex(text, std::regex::ECMAScript | std::regex::optimize);
    } catch (const std::regex_error & error) {
        fail("--until: '" + text + "' is not a regular expression: " + error.what());
    }
}

/// The flags that take a value, and what each does with it.
std::map<std::string, std::function<void(const std::string &, const std::string &)>> value_flags(Options & o) {
    return {
        { "--model", [&](auto &, auto & v) { o.model = v; } },
        { "--out", [&](auto &, auto & v) { o.out = v; } },
        { "--tokens", [&](auto & f, auto & v) { o.tokens = parse_list<llama_token>(f, v, 0); } },
        { "--prompt", [&](auto &, auto & v) { o.prompt = v, o.has_prompt = true; } },
        { "--schedule", [&](auto & f, auto & v) { o.schedule = parse_list<int32_t>(f, v, 1); } },
        { "--generate", [&](auto & f, auto & v) { o.generate = static_cast<int32_t>(parse_integer(f, v, 0, INT32_MAX)); } },
        { "--filter", [&](auto &, auto & v) { o.filters.push_back(parse_filter(v)); } },
        { "--until", [&](auto &, auto & v) { o.until = v, o.until_pattern = parse_until(v); } },
        { "--threads", [&](auto & f, auto & v) { o.threads = static_cast<int32_t>(parse_integer(f, v, 1, 1024)); } },
        { "--ctx", [&](auto & f, auto & v) { o.n_ctx = static_cast<uint32_t>(parse_integer(f, v, 1, INT32_MAX)); } },
        { "--type-k", [&](auto & f, auto & v) { o.type_k = parse_type(f, v); } },
        { "--type-v", [&](auto & f, auto & v) { o.type_v = parse_type(f, v); } },
        { "--flash-attn", [&](auto & f, auto & v) { o.flash_attn = parse_switch(f, v); } },
        { "--repack", [&](auto & f, auto & v) { o.repack = parse_switch(f, v); } },
    };
}

Options parse_options(int argc, char ** argv) {
    Options o;
    const auto valued = value_flags(o);
    const std::map<std::string, bool *> plain = {
        { "--named", &o.named }, { "--views", &o.views }, { "--all-logits", &o.all_logits }, { "--reference-kernels", &o.reference_kernels }
    };
    const std::map<std::string, std::string> short_names = { { "-m", "--model" }, { "-t", "--tokens" }, { "-p", "--prompt" } };
    for (int i = 1; i < argc; i++) {
        const auto long_name = short_names.find(argv[i]);
        const std::string flag = long_name == short_names.end() ? argv[i] : long_name->second;
        if (flag == "-h" || flag == "--help") {
            std::fputs(HELP, stdout);
            std::exit(0);
        }
        const auto value = valued.find(flag);
        const auto toggle = plain.find(flag);
        if (toggle != plain.end()) {
            *toggle->second = true;
        } else if (value == valued.end()) {
            fail("unknown option '" + flag + "' (see --help)");
        } else if (i + 1 == argc) {
            fail(flag + " needs a value");
        } else {
            value->second(flag, argv[++i]);
        }
    }
    if (o.model.empty() || o.out.empty()) {
        fail("-m MODEL and --out FILE.npz are needed (see --help)");
    }
    if (o.reference_kernels && o.repack) {
        fail("--reference-kernels cannot read repacked weights; leave out --repack on");
    }
    if (o.tokens.empty() == !o.has_prompt) {
        fail("give either -t IDS or -p TEXT (see --help)");
    }
    return o;
}

// ---------------------------------------------------------------------------------------------------------------------
// Reading tensors.

std::vector<int64_t> trimmed_ne(const ggml_tensor * t) {
    int n = GGML_MAX_DIMS;
    while (n > 1 && t->ne[n - 1] == 1) {
        n--;
    }
    return { t->ne, t->ne + n };
}

/// How numpy calls the type; types it does not have are raw bytes.
std::string npy_descr(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32: return "<f4";
        case GGML_TYPE_F16: return "<f2";
        case GGML_TYPE_F64: return "<f8";
        case GGML_TYPE_I8: return "|i1";
        case GGML_TYPE_I16: return "<i2";
        case GGML_TYPE_I32: return "<i4";
        case GGML_TYPE_I64: return "<i8";
        default: return "|u1";
    }
}

std::vector<int64_t> npy_shape(const ggml_tensor * t) {
    std::vector<int64_t> shape = trimmed_ne(t);
    if (npy_descr(t->type) == "|u1") {
        shape[0] = static_cast<int64_t>(ggml_row_size(t->type, t->ne[0]));
    }
    std::reverse(shape.begin(), shape.end());
    return shape;
}

bool has_memory(const ggml_tensor * t) {
    const ggml_tensor * root = t->view_src ? t->view_src : t;
    return t->data != nullptr && root->buffer != nullptr;
}

/// Blocks of a quantised row cannot be told apart by strides of elements, so such a tensor is stored only when contiguous.
bool can_gather(const ggml_tensor * t) {
    return has_memory(t) && (ggml_blck_size(t->type) == 1 || ggml_is_contiguous(t));
}

/// The logical values, dimension 0 fastest, whatever the strides; read through the backend, so device memory works too.
void gather(const ggml_tensor * t, std::vector<uint8_t> & out) {
    const size_t row_bytes = ggml_row_size(t->type, t->ne[0]);
    out.resize(row_bytes * static_cast<size_t>(ggml_nrows(t)));
    if (ggml_is_contiguous(t)) {
        ggml_backend_tensor_get(t, out.data(), 0, out.size());
        return;
    }
    std::vector<uint8_t> span(ggml_nbytes(t));
    ggml_backend_tensor_get(t, span.data(), 0, span.size());
    const size_t element = ggml_type_size(t->type);
    uint8_t * to = out.data();
    for (int64_t i3 = 0; i3 < t->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < t->ne[2]; i2++) {
            for (int64_t i1 = 0; i1 < t->ne[1]; i1++) {
                const uint8_t * from = span.data() + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3];
                for (int64_t i0 = 0; i0 < t->ne[0]; i0++, to += element) {
                    std::memcpy(to, from + i0 * t->nb[0], element);
                }
            }
        }
    }
}

/// Whether a floating-point payload holds a NaN or an infinity: all exponent bits set.
bool has_non_finite(ggml_type type, const std::vector<uint8_t> & payload) {
    const auto any = [&](auto exponent) {
        decltype(exponent) bits;
        for (size_t at = 0; at + sizeof bits <= payload.size(); at += sizeof bits) {
            std::memcpy(&bits, payload.data() + at, sizeof bits);
            if ((bits & exponent) == exponent) {
                return true;
            }
        }
        return false;
    };
    switch (type) {
        case GGML_TYPE_F32: return any(uint32_t(0x7F800000));
        case GGML_TYPE_F16: return any(uint16_t(0x7C00));
        case GGML_TYPE_BF16: return any(uint16_t(0x7F80));
        case GGML_TYPE_F64: return any(uint64_t(0x7FF0000000000000));
        default: return false;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Capturing one graph after the other.

/// Operators that move no data: their result is the root's memory seen through other extents and strides.
bool is_pure_view(const ggml_tensor * t) {
    return t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_PERMUTE || t->op == GGML_OP_TRANSPOSE;
}

/// Whether llama.cpp chose the name. ggml numbers tensors that nobody named, and derives names such as "x (view)".
bool is_given_name(const std::string & name) {
    for (const char * prefix : { "node_", "leaf_" }) {
        if (starts_with(name, prefix) && all_digits(name.substr(std::strlen(prefix)))) {
            return false;
        }
    }
    return !name.empty() && name.find(" (") == std::string::npos;
}

std::string variant_of(const ggml_tensor * t) {
    const std::string op = ggml_op_name(t->op);
    const char * name = op == "UNARY" ? ggml_unary_op_name(ggml_get_unary_op(t)) : op == "GLU" ? compat::glu_name(t, 0) : nullptr;
    return name ? name : "";
}

std::vector<int32_t> params_of(const ggml_tensor * t) {
    constexpr size_t count = sizeof t->op_params / sizeof(int32_t);
    const auto * words = reinterpret_cast<const int32_t *>(t->op_params);
    size_t n = count;
    while (n > 0 && words[n - 1] == 0) {
        n--;
    }
    return { words, words + n };
}

/// The sources without trailing nulls. A cast names itself as the second one, which says nothing.
std::vector<const ggml_tensor *> sources_of(const ggml_tensor * t) {
    std::vector<const ggml_tensor *> sources(t->src, t->src + GGML_MAX_SRC);
    std::replace(sources.begin(), sources.end(), t, static_cast<const ggml_tensor *>(nullptr));
    while (!sources.empty() && !sources.back()) {
        sources.pop_back();
    }
    return sources;
}

/// The extents, strides and type that leaves and nodes have in common.
std::string layout_json(const ggml_tensor * t) {
    return "\"type\":" + quote(ggml_type_name(t->type)) + ",\"ne\":" + json_numbers(std::vector<int64_t>(t->ne, t->ne + GGML_MAX_DIMS)) +
           ",\"nb\":" + json_numbers(std::vector<size_t>(t->nb, t->nb + GGML_MAX_DIMS));
}

std::string entry_json(const std::string & entry) {
    return ",\"entry\":" + (entry.empty() ? std::string("null") : quote(entry)) + "}";
}

struct CaptureCounts {
    size_t nodes = 0, non_finite = 0;
    bool fused_gdn = false, unfused_gdn = false;
    std::vector<std::vector<size_t>> selected;  // first and last id of each run of selected nodes
};

class Capture {
public:
    Capture(const Options & options, NpzWriter & npz) : options_(options), npz_(npz) {}

    /// Starts a step; `n_tokens` is what the graph must read, or the batch was split behind our back.
    void begin_step(int32_t step, int32_t n_tokens) {
        step_ = step;
        n_tokens_ = n_tokens;
    }

    /// Ends a step: from here on the same addresses mean other tensors.
    void end_step() {
        if (step_nodes_.empty()) {
            fail("step " + std::to_string(step_) + ": llama.cpp evaluated no graph");
        }
        if (!options_.until.empty() && !ended_) {
            fail("--until: step " + std::to_string(step_) + " has no tensor whose name contains a match of '" + options_.until + "'");
        }
        ended_ = false;
        for (const Node & node : step_nodes_) {
            nodes_json_ += (nodes_json_.empty() ? "" : ",") + node.json + entry_json(node.entry);
        }
        step_nodes_.clear();
        node_at_.clear();
        occurrences_.clear();
        step_leaves_.clear();
    }

    /// Input leaves are read here, before the node runs: ggml may give their memory to a later result.
    void before(const ggml_tensor * t) {
        if (node_at_.count(t) != 0) {
            fail("llama.cpp evaluated more than one graph; the ubatch was split");
        }
        if (ended_) {
            return;
        }
        for (const ggml_tensor * source : sources_of(t)) {
            if (source) {
                resolve(source);
            }
        }
        if (t->view_src) {
            resolve(t->view_src);
        }
    }

    void after(const ggml_tensor * t) {
        const std::string name = t->name;
        note_delta_net(t, name);
        if (ended_) {
            return;
        }
        Node node;
        node.id = counts_.nodes++;
        const int occurrence = occurrences_[name]++;
        node.json = node_json(t, node.id, name, occurrence);
        Node * root = root_node(t);
        note_selected(t, name, node.id);
        if (wants_payload(t, name, root)) {
            node.entry = store(t, name, occurrence);
            lend_entry_to_root(t, node, root);
        }
        if (root && !is_pure_view(t)) {
            root->overwritten = true;
        }
        node_at_[t] = step_nodes_.size();
        step_nodes_.push_back(std::move(node));
        ended_ = !options_.until.empty() && std::regex_search(name, options_.until_pattern);
    }

    const CaptureCounts & counts() const { return counts_; }
    std::string nodes_json() const { return "[" + nodes_json_ + "]"; }
    std::string leaves_json() const { return "[" + leaves_json_ + "]"; }

private:
    struct Node {
        size_t id = 0;
        std::string json;   // all but the entry, which a later view may still decide
        std::string entry;  // empty: no payload
        bool overwritten = false;
    };

    bool selected(const ggml_tensor * t, const std::string & name) const {
        if (ggml_nelements(t) == 0 || (options_.named && !is_given_name(name))) {
            return false;
        }
        const auto matches = [&](const Filter & filter) { return filter.matches(step_, name); };
        return options_.filters.empty() || std::any_of(options_.filters.begin(), options_.filters.end(), matches);
    }

    void note_selected(const ggml_tensor * t, const std::string & name, size_t id) {
        if (!selected(t, name)) {
            return;
        }
        if (!counts_.selected.empty() && counts_.selected.back()[1] + 1 == id) {
            counts_.selected.back()[1] = id;
        } else {
            counts_.selected.push_back({ id, id });
        }
    }

    /// A pure view is read from its root's payload, as long as that is what the root's memory still holds.
    bool wants_payload(const ggml_tensor * t, const std::string & name, const Node * root) const {
        if (!selected(t, name) || !can_gather(t)) {
            return false;
        }
        if (options_.views || !is_pure_view(t)) {
            return true;
        }
        const bool derivable = root && !root->entry.empty() && !root->overwritten && ggml_is_contiguous(t->view_src);
        return root && !derivable;
    }

    std::string store(const ggml_tensor * t, const std::string & name, int occurrence) {
        gather(t, payload_);
        counts_.non_finite += has_non_finite(t->type, payload_) ? 1 : 0;
        const std::string suffix = occurrence > 0 ? "." + std::to_string(occurrence) : "";
        // Raw bytes say nothing about the width of a row, so such payloads are shared only between equal shapes.
        const bool raw = npy_descr(t->type) == "|u1";
        const std::string kind = ggml_type_name(t->type) + (raw ? json_numbers(trimmed_ne(t)) : "");
        return npz_.add_once(std::to_string(step_) + "/" + entry_part(name) + suffix, kind, npy_descr(t->type), npy_shape(t), payload_);
    }

    /// A view that shows all of a root without an entry is the root's payload too.
    static void lend_entry_to_root(const ggml_tensor * t, const Node & node, Node * root) {
        const bool whole = root && is_pure_view(t) && t->view_offs == 0 && ggml_is_contiguous(t) && ggml_is_contiguous(t->view_src) &&
                           t->type == t->view_src->type && ggml_nelements(t) == ggml_nelements(t->view_src);
        if (whole && root->entry.empty() && !root->overwritten) {
            root->entry = node.entry;
        }
    }

    Node * root_node(const ggml_tensor * t) {
        const auto found = node_at_.find(t->view_src);
        return found == node_at_.end() ? nullptr : &step_nodes_[found->second];
    }

    std::string node_json(const ggml_tensor * t, size_t id, const std::string & name, int occurrence) {
        std::string json = "{\"id\":" + std::to_string(id) + ",\"step\":" + std::to_string(step_) + ",\"name\":" + quote(name) +
                           ",\"occurrence\":" + std::to_string(occurrence) + ",\"op\":" + quote(ggml_op_name(t->op));
        const std::string variant = variant_of(t);
        if (!variant.empty()) {
            json += ",\"variant\":" + quote(variant);
        }
        json += ",\"params\":" + json_numbers(params_of(t)) + "," + layout_json(t) + ",\"contiguous\":" + boolean(ggml_is_contiguous(t));
        json += ",\"sources\":" + sources_json(t) + ",\"view_of\":";
        if (!t->view_src) {
            return json + "null";
        }
        return json + "{" + resolve(t->view_src) + ",\"offset\":" + std::to_string(t->view_offs) + "}";
    }

    std::string sources_json(const ggml_tensor * t) {
        return json_list(sources_of(t), [&](const ggml_tensor * source) { return source ? "{" + resolve(source) + "}" : std::string("null"); });
    }

    /// `"node":3,"name":".."` or `"leaf":3,"name":".."`; a leaf that was not met before is recorded.
    std::string resolve(const ggml_tensor * t) {
        const auto node = node_at_.find(t);
        std::string key;
        if (node != node_at_.end()) {
            key = "\"node\":" + std::to_string(step_nodes_[node->second].id);
        } else {
            key = "\"leaf\":" + std::to_string(leaf_id(t));
        }
        return key + ",\"name\":" + quote(t->name);
    }

    size_t leaf_id(const ggml_tensor * t) {
        const auto & known = is_input(t) ? step_leaves_ : lasting_leaves_;
        const auto found = known.find(t);
        if (found != known.end()) {
            return found->second;
        }
        if (t->op != GGML_OP_NONE) {
            fail(std::string("'") + t->name + "' is read before it was evaluated, so the graph cannot be recorded");
        }
        return record_leaf(t);
    }

    static const char * kind_of(const ggml_tensor * t) {
        for (const char * prefix : { "cache_k_l", "cache_v_l", "cache_r_l", "cache_s_l" }) {
            if (starts_with(t->name, prefix)) {
                return "cache";
            }
        }
        const ggml_tensor * root = t->view_src ? t->view_src : t;
        const bool weight = root->buffer && ggml_backend_buffer_get_usage(root->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
        return weight ? "weight" : "input";
    }

    static bool is_input(const ggml_tensor * t) { return std::strcmp(kind_of(t), "input") == 0; }

    size_t record_leaf(const ggml_tensor * t) {
        const size_t id = n_leaves_++;
        const bool input = is_input(t);
        std::string entry;
        if (input && ggml_nelements(t) > 0 && can_gather(t)) {
            gather(t, payload_);
            entry = npz_.unique_name(std::to_string(step_) + "/" + entry_part(t->name));
            npz_.add(entry, npy_descr(t->type), npy_shape(t), payload_);
        }
        if (input && std::strcmp(t->name, "inp_tokens") == 0 && t->ne[0] != n_tokens_) {
            fail("the graph reads " + std::to_string(t->ne[0]) + " tokens where the schedule has " + std::to_string(n_tokens_));
        }
        leaves_json_ += (leaves_json_.empty() ? "{" : ",{") + std::string("\"id\":") + std::to_string(id) +
                        ",\"step\":" + (input ? std::to_string(step_) : "null") + ",\"name\":" + quote(t->name) +
                        ",\"kind\":" + quote(kind_of(t)) + "," + layout_json(t) + entry_json(entry);
        (input ? step_leaves_ : lasting_leaves_)[t] = id;
        return id;
    }

    /// A tensor's name inside an entry name, where a slash would start a folder.
    static std::string entry_part(std::string name) {
        std::replace(name.begin(), name.end(), '/', '_');
        return name;
    }

    void note_delta_net(const ggml_tensor * t, const std::string & name) {
        counts_.fused_gdn |= std::strcmp(ggml_op_name(t->op), "GATED_DELTA_NET") == 0;
        counts_.unfused_gdn |= starts_with(name, "dnet_add_");
    }

    const Options & options_;
    NpzWriter & npz_;
    CaptureCounts counts_;
    std::string nodes_json_, leaves_json_;
    std::vector<uint8_t> payload_;
    int32_t step_ = 0, n_tokens_ = 0;
    bool ended_ = false;  // --until was met in this step
    size_t n_leaves_ = 0;
    std::vector<Node> step_nodes_;
    std::unordered_map<const ggml_tensor *, size_t> node_at_;       // position in step_nodes_
    std::unordered_map<const ggml_tensor *, size_t> step_leaves_;   // inputs belong to one graph
    std::unordered_map<const ggml_tensor *, size_t> lasting_leaves_;  // weights and caches outlive it
    std::unordered_map<std::string, int> occurrences_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Reference kernels.

/// Computes every node a second time with the CPU backend's plain kernels and puts that result in place of the first.
///
/// A context makes its own backends and does not let anyone at them, so the switch cannot be set on the one that runs the
/// graph. The nodes are public, though: before a node runs (ggml may give its sources' memory to its result) it is computed
/// on a backend of ours into memory of ours. Nodes that write into other tensors (copies, cache writes) move data only and
/// are left to llama.cpp.
class ReferenceKernels {
public:
    explicit ReferenceKernels(int32_t n_threads) : backend_(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr), ggml_backend_free) {
        if (!backend_) {
            fail("--reference-kernels: llama.cpp has no CPU backend");
        }
        using SetRef = void (*)(ggml_backend_t, bool);
        using SetThreads = void (*)(ggml_backend_t, int);
        ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend_.get()));
        const auto set_ref = reinterpret_cast<SetRef>(ggml_backend_reg_get_proc_address(registry, "ggml_backend_cpu_set_use_ref"));
        const auto set_threads = reinterpret_cast<SetThreads>(ggml_backend_reg_get_proc_address(registry, "ggml_backend_set_n_threads"));
        if (!set_ref || !set_threads) {
            fail("--reference-kernels: this llama.cpp tree does not offer them");
        }
        set_ref(backend_.get(), true);
        set_threads(backend_.get(), n_threads);
    }

    void before(const ggml_tensor * t) {
        if (replaces(t)) {
            compute(t);
        }
    }

    void after(ggml_tensor * t) const {
        if (replaces(t)) {
            ggml_backend_tensor_set(t, result_.data(), 0, result_.size());
        }
    }

private:
    static bool replaces(const ggml_tensor * t) { return t->op != GGML_OP_NONE && !is_pure_view(t) && !t->view_src && ggml_nelements(t) > 0; }

    void compute(const ggml_tensor * t) {
        constexpr size_t n_tensors = GGML_MAX_SRC + 1, n_nodes = 16;
        const size_t size = n_tensors * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_nodes, false);
        const std::unique_ptr<ggml_context, decltype(&ggml_free)> context(ggml_init({ size, nullptr, true }), ggml_free);
        ggml_tensor * copy = ggml_new_tensor(context.get(), t->type, GGML_MAX_DIMS, t->ne);
        copy->op = t->op;
        std::memcpy(copy->op_params, t->op_params, sizeof copy->op_params);
        ggml_set_name(copy, t->name);
        for (int i = 0; i < GGML_MAX_SRC; i++) {
            copy->src[i] = t->src[i] ? as_leaf(context.get(), t->src[i]) : nullptr;
        }
        const std::unique_ptr<ggml_backend_buffer, decltype(&ggml_backend_buffer_free)> buffer(
            ggml_backend_alloc_ctx_tensors(context.get(), backend_.get()), ggml_backend_buffer_free);
        ggml_cgraph * graph = ggml_new_graph_custom(context.get(), n_nodes, false);
        ggml_build_forward_expand(graph, copy);
        if (!buffer || ggml_backend_graph_compute(backend_.get(), graph) != GGML_STATUS_SUCCESS) {
            fail(std::string("--reference-kernels: could not compute '") + t->name + "'");
        }
        result_.resize(ggml_nbytes(copy));
        ggml_backend_tensor_get(copy, result_.data(), 0, result_.size());
    }

    /// The same memory and layout, without the history that would be computed along.
    static ggml_tensor * as_leaf(ggml_context * context, const ggml_tensor * t) {
        ggml_tensor * leaf = ggml_new_tensor(context, t->type, GGML_MAX_DIMS, t->ne);
        std::memcpy(leaf->nb, t->nb, sizeof leaf->nb);
        leaf->data = t->data;
        leaf->buffer = t->view_src ? t->view_src->buffer : t->buffer;
        ggml_set_name(leaf, t->name);
        return leaf;
    }

    std::unique_ptr<ggml_backend, decltype(&ggml_backend_free)> backend_;
    std::vector<uint8_t> result_;
};

/// What a context tells about every node, and to whom.
struct Observer {
    ReferenceKernels * reference;
    Capture * capture;
    std::string error;  // must not unwind through llama.cpp
};

bool observe_callback(ggml_tensor * t, bool ask, void * data) {
    auto & observer = *static_cast<Observer *>(data);
    if (!observer.error.empty()) {
        return false;
    }
    if (!compat::is_evaluated(t, 0)) {
        return true;
    }
    try {
        if (ask) {
            if (observer.capture) {
                observer.capture->before(t);
            }
            if (observer.reference) {
                observer.reference->before(t);
            }
        } else {
            if (observer.reference) {
                observer.reference->after(t);
            }
            if (observer.capture) {
                observer.capture->after(t);
            }
        }
    } catch (const std::exception & error) {
        observer.error = error.what();
        return false;
    }
    return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// The model and its contexts.

using ModelPtr = std::unique_ptr<llama_model, decltype(&llama_model_free)>;
using ContextPtr = std::unique_ptr<llama_context, decltype(&llama_free)>;

/// llama.cpp's warnings and errors only; what it says line by line while loading is not ours to repeat.
void log_callback(ggml_log_level level, const char * text, void *) {
    static bool passing = false;  // a continuation belongs to the message before it
    if (level != GGML_LOG_LEVEL_CONT) {
        passing = level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR;
    }
    if (passing) {
        std::fputs(text, stderr);
    }
}

struct TreeAbilities {
    bool knows_repack = false;
};

ModelPtr load_model(const Options & o, TreeAbilities & tree) {
    static ggml_backend_dev_t no_devices[] = { nullptr };
    llama_model_params params = llama_model_default_params();
    params.devices = no_devices;
    params.n_gpu_layers = 0;
    compat::set_load_mtp(params, false, 0);
    tree.knows_repack = compat::set_use_extra_bufts(params, o.repack, 0);
    if (!tree.knows_repack && o.repack) {
        fail("--repack on: this llama.cpp tree has no switch for it");
    }
    ModelPtr model(llama_model_load_from_file(o.model.c_str(), params), llama_model_free);
    if (!model) {
        fail("llama.cpp could not load " + o.model + " (its messages are above)");
    }
    return model;
}

ContextPtr make_context(llama_model * model, const Options & o, Observer & observer) {
    llama_context_params params = llama_context_default_params();
    const auto total = static_cast<uint32_t>(o.tokens.size()) + static_cast<uint32_t>(o.generate);
    params.n_ctx = o.n_ctx != 0 ? o.n_ctx : (total + 255) / 256 * 256;
    // A batch holds one entry of the schedule and is never split.
    params.n_batch = params.n_ubatch = static_cast<uint32_t>(*std::max_element(o.schedule.begin(), o.schedule.end()));
    params.n_seq_max = 1;
    params.n_threads = params.n_threads_batch = o.threads;
    params.type_k = o.type_k;
    params.type_v = o.type_v;
    params.offload_kqv = false;
    params.no_perf = true;
    compat::set_op_offload(params, false, 0);
    compat::set_n_rs_seq(params, 0, 0);
    const bool flash_known = compat::set_flash_attn_type(params, o.flash_attn, 0) || compat::set_flash_attn(params, o.flash_attn, 0);
    if (!flash_known) {
        fail("this llama.cpp tree sets flash attention in a way that llama-dump does not know");
    }
    if (observer.reference || observer.capture) {
        params.cb_eval = observe_callback;
        params.cb_eval_user_data = &observer;
    }
    ContextPtr context(llama_init_from_model(model, params), llama_free);
    if (!context) {
        fail("llama.cpp could not make a context (its messages are above)");
    }
    return context;
}

std::vector<llama_token> tokenize(const llama_model * model, const std::string & text) {
    const llama_vocab * vocab = llama_model_get_vocab(model);
    if (llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_NONE) {
        fail("-p: the model has no tokenizer; give token ids with -t");
    }
    std::vector<llama_token> tokens(text.size() + 8);
    int32_t n = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(), static_cast<int32_t>(tokens.size()), true, true);
    if (n < 0) {
        tokens.resize(static_cast<size_t>(-n));
        n = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(), -n, true, true);
    }
    if (n <= 0) {
        fail("-p: the text gives no token");
    }
    tokens.resize(static_cast<size_t>(n));
    return tokens;
}

void settle_schedule(Options & o, const llama_model * model) {
    if (o.has_prompt) {
        o.tokens = tokenize(model, o.prompt);
    }
    const int32_t n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    for (const llama_token token : o.tokens) {
        if (token >= n_vocab) {
            fail("token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(n_vocab));
        }
    }
    if (o.schedule.empty()) {
        o.schedule.push_back(static_cast<int32_t>(o.tokens.size()));
    }
    int64_t sum = 0;
    for (const int32_t n : o.schedule) {
        sum += n;
    }
    if (sum != static_cast<int64_t>(o.tokens.size())) {
        fail("--schedule adds up to " + std::to_string(sum) + " tokens, but there are " + std::to_string(o.tokens.size()));
    }
    const int64_t total = sum + o.generate;
    if (o.n_ctx != 0 && o.n_ctx < total) {
        fail("--ctx " + std::to_string(o.n_ctx) + " is too small for " + std::to_string(total) + " tokens");
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Running: the captured context and a plain one, step by step beside each other.

struct Ubatch {
    std::vector<llama_token> tokens;
    llama_pos first_position = 0;
    std::vector<int32_t> outputs;  // 1 where logits are asked for
};

std::string ubatch_json(size_t step, const Ubatch & ubatch) {
    std::vector<llama_pos> positions;
    for (size_t i = 0; i < ubatch.tokens.size(); i++) {
        positions.push_back(ubatch.first_position + static_cast<llama_pos>(i));
    }
    return "{\"step\":" + std::to_string(step) + ",\"tokens\":" + json_numbers(ubatch.tokens) + ",\"positions\":" + json_numbers(positions) +
           ",\"seq_ids\":" + json_list(positions, [](llama_pos) { return std::string("[0]"); }) + ",\"outputs\":" + json_numbers(ubatch.outputs) + "}";
}

void decode(llama_context * context, const Observer & observer, const Ubatch & ubatch) {
    const auto n = static_cast<int32_t>(ubatch.tokens.size());
    llama_batch batch = llama_batch_init(n, 0, 1);
    batch.n_tokens = n;
    for (int32_t i = 0; i < n; i++) {
        batch.token[i] = ubatch.tokens[static_cast<size_t>(i)];
        batch.pos[i] = ubatch.first_position + i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = static_cast<int8_t>(ubatch.outputs[static_cast<size_t>(i)]);
    }
    const int32_t status = llama_decode(context, batch);
    llama_synchronize(context);
    llama_batch_free(batch);
    if (!observer.error.empty()) {
        fail(observer.error);
    }
    if (status != 0) {
        fail("llama_decode failed with status " + std::to_string(status));
    }
}

/// Whether capturing changed what the model computes: without a callback llama.cpp may fuse operators.
class Comparison {
public:
    void compare(size_t step, const Ubatch & ubatch, llama_context * captured, llama_context * plain, size_t n_vocab) {
        for (size_t i = 0; i < ubatch.outputs.size(); i++) {
            if (ubatch.outputs[i] == 0) {
                continue;
            }
            const float * a = llama_get_logits_ith(captured, static_cast<int32_t>(i));
            const float * b = llama_get_logits_ith(plain, static_cast<int32_t>(i));
            if (!a || !b) {
                fail("llama.cpp gave no logits for step " + std::to_string(step));
            }
            compared_ += n_vocab;
            for (size_t v = 0; v < n_vocab && unchanged(); v++) {
                if (std::memcmp(a + v, b + v, sizeof(float)) != 0) {
                    difference_ = "{\"step\":" + std::to_string(step) + ",\"token\":" + std::to_string(i) + ",\"index\":" + std::to_string(v) +
                                  ",\"captured\":" + quote(float_text(a[v])) + ",\"plain\":" + quote(float_text(b[v])) + "}";
                }
            }
        }
    }
    bool unchanged() const { return difference_.empty(); }
    const std::string & difference() const { return difference_; }
    std::string json() const {
        return std::string("{\"unchanged\":") + boolean(unchanged()) + ",\"compared_logits\":" + std::to_string(compared_) +
               ",\"first_difference\":" + (unchanged() ? "null" : difference_) + "}";
    }

private:
    uint64_t compared_ = 0;
    std::string difference_;
};

/// The first of the largest logits, after the last token of the ubatch.
llama_token greedy(llama_context * context, const Ubatch & ubatch, size_t n_vocab) {
    const float * logits = llama_get_logits_ith(context, static_cast<int32_t>(ubatch.tokens.size()) - 1);
    return static_cast<llama_token>(std::max_element(logits, logits + n_vocab) - logits);
}

struct Run {
    std::vector<Ubatch> ubatches;
    Comparison comparison;
};

class Progress {
public:
    Progress(size_t steps, const CaptureCounts & counts, const NpzWriter & npz) : steps_(steps), counts_(counts), npz_(npz) {}

    void step_done(size_t done) {
        const auto now = std::chrono::steady_clock::now();
        if (done < steps_ && now - last_ < std::chrono::seconds(2)) {
            return;
        }
        last_ = now;
        std::fprintf(stderr, "llama-dump: step %zu of %zu, %zu nodes, %.1f MB\n", done, steps_, counts_.nodes, static_cast<double>(npz_.size()) / 1e6);
    }

private:
    size_t steps_;
    const CaptureCounts & counts_;
    const NpzWriter & npz_;
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// A context and who watches it.
struct Watched {
    ContextPtr context;
    const Observer * observer;
};

Run run_schedule(const Options & o, const Watched & captured, const Watched & plain, size_t n_vocab, Capture & capture, Progress progress) {
    Run run;
    llama_pos position = 0;
    const size_t n_steps = o.schedule.size() + static_cast<size_t>(o.generate);
    for (size_t step = 0; step < n_steps; step++) {
        Ubatch ubatch;
        ubatch.first_position = position;
        if (step < o.schedule.size()) {
            const auto first = o.tokens.begin() + position;
            ubatch.tokens.assign(first, first + o.schedule[step]);
        } else {
            ubatch.tokens.push_back(greedy(captured.context.get(), run.ubatches.back(), n_vocab));
        }
        ubatch.outputs.assign(ubatch.tokens.size(), o.all_logits ? 1 : 0);
        ubatch.outputs.back() = 1;
        const auto n = static_cast<int32_t>(ubatch.tokens.size());
        capture.begin_step(static_cast<int32_t>(step), n);
        decode(captured.context.get(), *captured.observer, ubatch);
        capture.end_step();
        decode(plain.context.get(), *plain.observer, ubatch);
        run.comparison.compare(step, ubatch, captured.context.get(), plain.context.get(), n_vocab);
        position += n;
        run.ubatches.push_back(std::move(ubatch));
        progress.step_done(step + 1);
    }
    return run;
}

// ---------------------------------------------------------------------------------------------------------------------
// The manifest.

std::string compiler() {
#if defined(__clang__)
    return "clang " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__) + "." + std::to_string(__clang_patchlevel__);
#elif defined(__GNUC__)
    return "gcc " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__) + "." + std::to_string(__GNUC_PATCHLEVEL__);
#else
    return "unknown";
#endif
}

std::string libc() {
#if defined(__GLIBC__) && __has_include(<gnu/libc-version.h>)
    return std::string("glibc ") + gnu_get_libc_version();
#else
    return "unknown";
#endif
}

/// One of llama.cpp's functions that fill a buffer and return the length they wanted.
std::string filled(const std::function<int32_t(char *, size_t)> & fill) {
    std::vector<char> buffer(512);
    int32_t n = fill(buffer.data(), buffer.size());
    if (n >= static_cast<int32_t>(buffer.size())) {
        buffer.resize(static_cast<size_t>(n) + 1);
        n = fill(buffer.data(), buffer.size());
    }
    return n < 0 ? "" : std::string(buffer.data(), static_cast<size_t>(n));
}

std::map<std::string, std::string> metadata(const llama_model * model) {
    constexpr size_t LONGEST = 256;  // longer values are templates and the like
    std::map<std::string, std::string> out;
    for (int32_t i = 0; i < llama_model_meta_count(model); i++) {
        const std::string key = filled([&](char * p, size_t n) { return llama_model_meta_key_by_index(model, i, p, n); });
        const std::string value = filled([&](char * p, size_t n) { return llama_model_meta_val_str_by_index(model, i, p, n); });
        if (value.size() <= LONGEST) {
            out[key] = value;
        }
    }
    return out;
}

std::string producer_json() {
    return "{\"name\":\"llama.cpp\",\"build\":" + std::to_string(LOCKSTEP_LLAMA_BUILD) + ",\"commit\":" + quote(LOCKSTEP_LLAMA_COMMIT) +
           ",\"backend\":\"CPU\",\"system_info\":" + quote(llama_print_system_info()) + ",\"compiler\":" + quote(compiler()) +
           ",\"libc\":" + quote(libc()) + ",\"dumper\":" + quote(DUMPER) + "}";
}

std::string model_json(const Options & o, const llama_model * model, const std::string & sha256) {
    const auto values = metadata(model);
    const auto architecture = values.find("general.architecture");
    const size_t slash = o.model.find_last_of('/');
    const std::string file = slash == std::string::npos ? o.model : o.model.substr(slash + 1);
    std::string pairs = json_list(values, [](const auto & pair) { return quote(pair.first) + ":" + quote(pair.second); });
    pairs.front() = '{';
    pairs.back() = '}';
    return "{\"file\":" + quote(file) + ",\"sha256\":" + quote(sha256) +
           ",\"architecture\":" + quote(architecture == values.end() ? "" : architecture->second) + ",\"metadata\":" + pairs + "}";
}

std::string run_json(const Options & o, const TreeAbilities & tree, const CaptureCounts & counts, const Run & run, llama_context * context) {
    size_t step = 0;
    std::string json = "{\"ubatches\":" + json_list(run.ubatches, [&](const Ubatch & u) { return ubatch_json(step++, u); });
    json += ",\"schedule\":" + json_numbers(o.schedule) + ",\"generated\":" + std::to_string(o.generate);
    json += ",\"prompt\":" + (o.has_prompt ? quote(o.prompt) : std::string("null"));
    json += ",\"n_ctx\":" + std::to_string(llama_n_ctx(context)) + ",\"n_seq_max\":" + std::to_string(llama_n_seq_max(context));
    json += ",\"n_batch\":" + std::to_string(llama_n_batch(context)) + ",\"n_ubatch\":" + std::to_string(llama_n_ubatch(context));
    json += ",\"n_threads\":" + std::to_string(o.threads) + ",\"flash_attn\":" + boolean(o.flash_attn);
    json += ",\"type_k\":" + quote(ggml_type_name(o.type_k)) + ",\"type_v\":" + quote(ggml_type_name(o.type_v));
    json += std::string(",\"repack\":") + (tree.knows_repack ? boolean(o.repack) : "null");
    json += std::string(",\"reference_kernels\":") + boolean(o.reference_kernels);
    json += std::string(",\"fused_gdn\":") + (counts.fused_gdn ? "true" : counts.unfused_gdn ? "false" : "null");
    json += ",\"filters\":" + json_list(o.filters, [](const Filter & filter) { return quote(filter.text); });
    json += o.until.empty() ? "" : ",\"until\":" + quote(o.until);
    json += std::string(",\"named_only\":") + boolean(o.named) + ",\"views\":" + boolean(o.views);
    return json + ",\"selected\":" + json_list(counts.selected, [](const std::vector<size_t> & run) { return json_numbers(run); }) + "}";
}

// ---------------------------------------------------------------------------------------------------------------------

int report(const Options & o, const CaptureCounts & counts, const NpzWriter & npz, const Run & run) {
    if (counts.non_finite > 0) {
        std::fprintf(stderr, "llama-dump: %zu stored tensors hold a NaN or an infinity\n", counts.non_finite);
    }
    const bool unchanged = run.comparison.unchanged();
    if (!unchanged) {
        std::fprintf(stderr, "llama-dump: WARNING: capturing changed the logits; first difference %s\n", run.comparison.difference().c_str());
    }
    std::printf("%s: %zu nodes, %zu stored entries, %.2f MB, %zu steps, logits %s by capturing\n", o.out.c_str(), counts.nodes, npz.count(),
                static_cast<double>(npz.size()) / 1e6, run.ubatches.size(), unchanged ? "unchanged" : "CHANGED");
    return unchanged ? 0 : EXIT_CHANGED;
}

int dump(Options o) {
    const std::string sha256 = sha256_file(o.model);
    llama_log_set(log_callback, nullptr);
    llama_backend_init();
    if (ggml_backend_reg_count() == 0) {
        ggml_backend_load_all();  // a tree built with loadable backends
    }
    TreeAbilities tree;
    const ModelPtr model = load_model(o, tree);
    settle_schedule(o, model.get());
    NpzWriter npz(o.out);
    Capture capture(o, npz);
    const auto reference = o.reference_kernels ? std::make_unique<ReferenceKernels>(o.threads) : nullptr;
    Observer captured_observer{ reference.get(), &capture, {} }, plain_observer{ reference.get(), nullptr, {} };
    const Watched captured{ make_context(model.get(), o, captured_observer), &captured_observer };
    const Watched plain{ make_context(model.get(), o, plain_observer), &plain_observer };
    const auto n_vocab = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model.get())));
    const size_t n_steps = o.schedule.size() + static_cast<size_t>(o.generate);
    const Run run = run_schedule(o, captured, plain, n_vocab, capture, Progress(n_steps, capture.counts(), npz));
    npz.finish("{\"format\":\"lockstep-dump\",\"version\":1,\"producer\":" + producer_json() + ",\"model\":" + model_json(o, model.get(), sha256) +
               ",\"run\":" + run_json(o, tree, capture.counts(), run, captured.context.get()) + ",\"capture\":" + run.comparison.json() +
               ",\"leaves\":" + capture.leaves_json() + ",\"nodes\":" + capture.nodes_json() + "}");
    return report(o, capture.counts(), npz, run);
}

}  // namespace

int main(int argc, char ** argv) {
    try {
        return dump(parse_options(argc, argv));
    } catch (const std::exception & error) {
        std::fprintf(stderr, "llama-dump: %s\n", error.what());
        return EXIT_CANNOT_RUN;
    }
}
