// Small tools: errors, text, JSON.

#include "text.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace lockstep {

[[noreturn]] void fail(const std::string & message) {
    throw std::runtime_error(message);
}

bool all_digits(const std::string & text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool starts_with(const std::string & text, const char * prefix) {
    return text.rfind(prefix, 0) == 0;
}

namespace {

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

}  // namespace

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

std::string float_text(float value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

}  // namespace lockstep
