// The dump's file: arrays of numpy in a zip.

#pragma once

#include "sha256.h"
#include "zip.h"

#include <cctype>
#include <set>
#include <unordered_map>

namespace lockstep {

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

}  // namespace lockstep
