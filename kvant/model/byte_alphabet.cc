#include "kvant/model/byte_alphabet.h"

#include <array>

#include "kvant/model/unicode.h"

namespace kvant::model {
namespace {

constexpr std::uint32_t kFirstSubstitute = 0x100;
constexpr std::size_t kCodes = kFirstSubstitute + 68;

constexpr bool is_visible(std::uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr auto kCodeOfByte = [] {
  std::array<std::uint16_t, 256> codes{};
  std::uint32_t substitute = kFirstSubstitute;
  for (std::uint32_t byte = 0; byte < codes.size(); ++byte) {
    codes[byte] = static_cast<std::uint16_t>(is_visible(byte) ? byte : substitute++);
  }
  return codes;
}();

// -1 for a code that stands for no byte.
constexpr auto kByteOfCode = [] {
  std::array<std::int16_t, kCodes> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (std::size_t byte = 0; byte < kCodeOfByte.size(); ++byte) {
    bytes[kCodeOfByte[byte]] = static_cast<std::int16_t>(byte);
  }
  return bytes;
}();

}  // namespace

std::string byte_symbol(std::uint8_t byte) {
  std::string out;
  append_utf8(kCodeOfByte[byte], out);
  return out;
}

std::optional<std::string> bytes_of_symbols(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Char c = read_char(text);
    if (!c.well_formed || c.code >= kCodes || kByteOfCode[c.code] < 0) return std::nullopt;
    out.push_back(static_cast<char>(kByteOfCode[c.code]));
    text.remove_prefix(c.n_bytes);
  }
  return out;
}

}  // namespace kvant::model
