// XXH3-128 (seed 0) for checksums of payloads and digests of test outputs. Not for identity: a page
// key or a fingerprint is a cryptographic hash (base/sha256.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "kvant/base/result.h"

// The library's state (XXH3_state_t), which nobody but hash.cc looks into.
struct XXH3_state_s;

namespace kvant {

struct Digest128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend auto operator<=>(const Digest128&, const Digest128&) = default;
  // 32 lower-case hexadecimal digits, high word first.
  std::string hex() const;
};

Digest128 xxh3_128(std::span<const std::byte> bytes);

// The same digest over bytes that come in pieces. Move-only.
class Xxh3Stream {
 public:
  // Errors: kOutOfMemory.
  static Result<Xxh3Stream> create();

  // How bytes are cut into pieces does not matter.
  void update(std::span<const std::byte> bytes) noexcept;
  // Of the bytes since create or reset.
  Digest128 digest() const noexcept;
  void reset() noexcept;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const noexcept;
  };
  Xxh3Stream() = default;

  std::unique_ptr<XXH3_state_s, Free> state_;
};

// The digest of the numbers' bytes as they lie in memory. Numbers only: a struct's padding is not
// part of its value.
template <class T>
  requires std::is_arithmetic_v<T>
Digest128 xxh3_128_of(std::span<const T> values) {
  return xxh3_128(std::as_bytes(values));
}

}  // namespace kvant
