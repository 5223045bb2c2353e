#include "kvant/model/unicode.h"

#include <utf8proc.h>

#include <array>

namespace kvant::model {
namespace {

constexpr std::uint32_t kReplacement = 0xFFFD;

// What may follow a lead byte, after Table 3-7 of the Unicode Standard.
struct Lead {
  std::uint32_t n_bytes = 0;  // 0: no character starts so
  unsigned char second_min = 0x80;
  unsigned char second_max = 0xBF;
};

constexpr Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {.n_bytes = 1};
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {.n_bytes = 2};
  if (byte == 0xE0) return {.n_bytes = 3, .second_min = 0xA0};
  if (byte == 0xED) return {.n_bytes = 3, .second_max = 0x9F};
  if (byte < 0xF0) return {.n_bytes = 3};
  if (byte == 0xF0) return {.n_bytes = 4, .second_min = 0x90};
  if (byte < 0xF4) return {.n_bytes = 4};
  if (byte == 0xF4) return {.n_bytes = 4, .second_max = 0x8F};
  return {};
}

// The longest start of a well-formed character at the front of `text`.
struct Prefix {
  std::uint32_t n_bytes = 0;
  std::uint32_t n_needed = 0;  // of the whole character; 0 when the first byte starts none
  bool complete() const { return n_needed != 0 && n_bytes == n_needed; }
};

Prefix read_prefix(std::string_view text) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[0]));
  if (lead.n_bytes == 0) return {};
  std::uint32_t n = 1;
  while (n < lead.n_bytes && n < text.size()) {
    const auto byte = static_cast<unsigned char>(text[n]);
    const unsigned char min = n == 1 ? lead.second_min : 0x80;
    const unsigned char max = n == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) break;
    ++n;
  }
  return {.n_bytes = n, .n_needed = lead.n_bytes};
}

bool is_white_space(std::uint32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

CharClass classify(std::uint32_t code) {
  if (code == ' ') return CharClass::kSpace;
  if (code == '\r' || code == '\n') return CharClass::kNewline;
  if (is_white_space(code)) return CharClass::kBlank;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    default:
      return CharClass::kOther;
  }
}

constexpr CharClass classify_ascii(unsigned char c) {
  if (c == ' ') return CharClass::kSpace;
  if (c == '\r' || c == '\n') return CharClass::kNewline;
  if (c >= 0x09 && c <= 0x0D) return CharClass::kBlank;
  if (c >= '0' && c <= '9') return CharClass::kNumber;
  const auto folded = static_cast<unsigned char>(c | 0x20);
  return folded >= 'a' && folded <= 'z' ? CharClass::kLetter : CharClass::kOther;
}

constexpr auto kAsciiClasses = [] {
  std::array<CharClass, 128> table{};
  for (std::size_t c = 0; c < table.size(); ++c) {
    table[c] = classify_ascii(static_cast<unsigned char>(c));
  }
  return table;
}();

}  // namespace

Char read_char(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {.code = first, .n_bytes = 1, .well_formed = true};
  const Prefix prefix = read_prefix(text);
  if (!prefix.complete()) return {.code = kReplacement, .n_bytes = 1, .well_formed = false};
  std::uint32_t code = first & (0x7FU >> prefix.n_bytes);
  for (std::uint32_t i = 1; i < prefix.n_bytes; ++i) {
    code = (code << 6) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  return {.code = code, .n_bytes = prefix.n_bytes, .well_formed = true};
}

CharClass class_of(std::uint32_t code) {
  return code < kAsciiClasses.size() ? kAsciiClasses[code] : classify(code);
}

void append_utf8(std::uint32_t code, std::string& out) {
  const auto tail = [&](std::uint32_t shift) {
    out.push_back(static_cast<char>(0x80U | ((code >> shift) & 0x3FU)));
  };
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0U | (code >> 6)));
    tail(0);
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0U | (code >> 12)));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0U | (code >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

void Utf8Repair::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (n_pending_ != 0) {
    joined.assign(pending_.data(), n_pending_);
    joined += bytes;
    bytes = joined;
    n_pending_ = 0;
  }
  while (!bytes.empty()) {
    const Prefix prefix = read_prefix(bytes);
    if (prefix.complete()) {
      out += bytes.substr(0, prefix.n_bytes);
      bytes.remove_prefix(prefix.n_bytes);
    } else if (prefix.n_needed != 0 && prefix.n_bytes == bytes.size()) {
      bytes.copy(pending_.data(), bytes.size());
      n_pending_ = static_cast<std::uint32_t>(bytes.size());
      return;
    } else {
      append_utf8(kReplacement, out);
      bytes.remove_prefix(prefix.n_needed == 0 ? 1 : prefix.n_bytes);
    }
  }
}

void Utf8Repair::flush(std::string& out) {
  if (n_pending_ != 0) append_utf8(kReplacement, out);
  n_pending_ = 0;
}

}  // namespace kvant::model
