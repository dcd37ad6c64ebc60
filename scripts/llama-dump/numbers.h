// Numbers on the command line.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

int64_t parse_integer(const std::string & flag, const std::string & text, int64_t low, int64_t high);

/// The pieces between separators; one more than there are separators.
std::vector<std::string> split_at(const std::string & text, char separator);

}  // namespace lockstep
