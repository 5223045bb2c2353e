// What a state is a state of: one digest over everything that shapes its bytes.
//
// Two states with one fingerprint and the same tokens hold the same bytes, so a file or a cached
// page is used only where its fingerprint is the one that was asked for. Whoever knows a part adds
// it: this room the layout, the model room its configuration, weights and numerics.
//
// The digest is SHA-256 over fields, each of them tagged and length-prefixed, so that no two lists
// of fields are the same bytes (docs/formats/state.md writes the encoding down, with test vectors):
//
//   "kvant fingerprint" | u32 version | field | field | ...
//   field:  u8 type ('b' 's' 'i' 'f' 'd') | u8 length of tag | tag | u64 length of value | value
//
// All numbers are little-endian. The order of fields counts.
//
// Rejected: hashing structs (padding, and a new member would not be seen), JSON (numbers have many
// spellings), a 64-bit hash (two models may collide, by accident or on purpose).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "kvant/base/result.h"
#include "kvant/base/sha256.h"
#include "kvant/state/layout.h"

namespace kvant::state {

// Of the encoding of fields, and of what add_layout says about a layout: what the same layout means
// for bytes in memory.
inline constexpr std::uint32_t kFingerprintVersion = 0;
inline constexpr std::int64_t kLayoutVersion = 0;

struct Fingerprint {
  Digest256 digest{};

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
  // 64 lower-case hexadecimal digits.
  std::string hex() const { return digest.hex(); }
};

// The name of a field: a literal of at most 255 bytes.
class Tag {
 public:
  template <std::size_t N>
  consteval Tag(const char (&name)[N]) : name_(name, N - 1) {  // NOLINT: a literal is a Tag
    static_assert(N - 1 <= 255);
  }
  std::string_view name() const { return name_; }

 private:
  std::string_view name_;
};

// Move-only; fails, if at all, in create and finish.
class FingerprintBuilder {
 public:
  // Errors: those of Sha256::create.
  static Result<FingerprintBuilder> create();

  void add(Tag tag, std::span<const std::byte> bytes) noexcept;
  void add(Tag tag, std::string_view text) noexcept;
  void add(Tag tag, std::int64_t number) noexcept;
  // Numbers by their bits: 0 and -0 differ.
  void add(Tag tag, float number) noexcept;
  void add(Tag tag, double number) noexcept;

  // Only destruction may follow. Errors: those of Sha256::finish.
  Result<Fingerprint> finish() noexcept;

 private:
  explicit FingerprintBuilder(Sha256 sha) : sha_(std::move(sha)) {}
  void add_field(char type, Tag tag, std::span<const std::byte> value) noexcept;

  Sha256 sha_;
};

// Every field of the layout and of its components.
void add_layout(FingerprintBuilder& builder, const Layout& layout) noexcept;

}  // namespace kvant::state
