// The container: a zip of stored entries, every entry's data on a 64-byte boundary.

#pragma once

#include "text.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

uint32_t crc32(uint32_t crc, const uint8_t * data, size_t size);

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
extern char unfinished_path[4096];

void remove_unfinished(int signal);

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

}  // namespace lockstep
