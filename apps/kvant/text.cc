#include "apps/kvant/text.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace kvant::app {
namespace {

constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};

template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// 1024 to the power that a suffix names; 0 for a suffix that names none.
double scale_of(std::string_view suffix) {
  std::string lower;
  for (const char c : suffix) {
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  double scale = 1.0;
  for (const std::string_view letter : {"", "k", "m", "g", "t"}) {
    const std::string unit(letter);
    const bool is_binary = !unit.empty() && lower == unit + "ib";
    if (lower == unit || lower == unit + "b" || is_binary) return scale;
    scale *= 1024.0;
  }
  return 0.0;
}

// The end of the longest run from `begin` whose layers are `step` apart.
std::size_t end_of_run(const std::vector<std::int64_t>& layers, std::size_t begin,
                       std::int64_t step) {
  std::size_t end = begin + 1;
  while (end < layers.size() && layers[end] == layers[end - 1] + step) end += 1;
  return end;
}

}  // namespace

std::string bytes_text(Bytes bytes) {
  auto amount = static_cast<double>(bytes.value());
  std::size_t unit = 0;
  while (amount >= 1024.0 && unit + 1 < kUnits.size()) {
    amount /= 1024.0;
    unit += 1;
  }
  if (unit == 0) return fmt::format("{} B", bytes.value());
  return fmt::format("{:.{}f} {}", amount, amount < 100.0 ? 1 : 0, kUnits[unit]);
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto number = parse_number(text.substr(0, digits));
  const double scale = scale_of(text.substr(digits));
  if (!number || scale == 0.0) return std::nullopt;
  const double bytes = std::floor(*number * scale);
  if (!(bytes < 0x1p63)) return std::nullopt;
  return Bytes(static_cast<std::int64_t>(bytes));
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  return parse_whole<std::int64_t>(text);
}

std::optional<double> parse_number(std::string_view text) { return parse_whole<double>(text); }

std::string counted(std::int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::string layers_text(const std::vector<std::int64_t>& layers) {
  constexpr std::size_t kShortestRange = 3;
  constexpr std::size_t kShortestStride = 6;
  std::string out;
  for (std::size_t i = 0; i < layers.size();) {
    if (!out.empty()) out += ' ';
    const std::size_t range = end_of_run(layers, i, 1);
    const std::size_t stride = end_of_run(layers, i, 2);
    if (range - i >= kShortestRange) {
      out += fmt::format("{}-{}", layers[i], layers[range - 1]);
      i = range;
    } else if (stride - i >= kShortestStride) {
      out += fmt::format("{} {} .. {}", layers[i], layers[i + 1], layers[stride - 1]);
      i = stride;
    } else {
      out += fmt::format("{}", layers[i]);
      i += 1;
    }
  }
  return out;
}

}  // namespace kvant::app
