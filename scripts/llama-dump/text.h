// Small tools: errors, text, JSON.

#pragma once

#include <string>

namespace lockstep {

[[noreturn]] void fail(const std::string & message);

bool all_digits(const std::string & text);
bool starts_with(const std::string & text, const char * prefix);

/// A JSON string. Bytes that are not UTF-8 become the replacement character.
std::string quote(const std::string & text);
const char * boolean(bool value);
std::string float_text(float value);

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

}  // namespace lockstep
