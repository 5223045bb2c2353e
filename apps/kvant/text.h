// Numbers as people write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/units.h"

namespace kvant::app {

// "384 B", "12.5 KiB", "1.2 GiB": three digits or more, in powers of 1024.
std::string bytes_text(Bytes bytes);

// "512M", "2G", "1.5GiB", "4096": powers of 1024, with or without "B" or "iB", in any case.
// None for anything else, and for numbers that do not fit.
std::optional<Bytes> parse_bytes(std::string_view text);

// A whole decimal number, none for anything else.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_number(std::string_view text);

// "2 tokens", "1 token"
std::string counted(std::int64_t n, std::string_view noun);

// "0-9" for neighbours, "2 4 .. 42" for many that are two apart, "2 5 8" for others.
std::string layers_text(const std::vector<std::int64_t>& layers);

}  // namespace kvant::app
