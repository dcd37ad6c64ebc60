// Numbers on the command line.

#include "numbers.h"

#include "text.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace lockstep {

int64_t parse_integer(const std::string & flag, const std::string & text, int64_t low, int64_t high) {
    errno = 0;
    char * end = nullptr;
    const long long value = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end != 0 || errno != 0 || value < low || value > high) {
        fail(flag + ": expected a number from " + std::to_string(low) + " to " + std::to_string(high) + ", got '" + text + "'");
    }
    return value;
}

std::vector<std::string> split_at(const std::string & text, char separator) {
    std::vector<std::string> pieces;
    for (size_t at = 0; at <= text.size();) {
        const size_t end = std::min(text.find(separator, at), text.size());
        pieces.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return pieces;
}

}  // namespace lockstep
