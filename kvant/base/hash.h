// XXH3-128 (seed 0) for checksums of payloads and digests of test outputs. Not for identity: a page
// key or a fingerprint is a cryptographic hash.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

namespace kvant {

struct Digest128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend auto operator<=>(const Digest128&, const Digest128&) = default;
  // 32 lower-case hexadecimal digits, high word first.
  std::string hex() const;
};

Digest128 xxh3_128(std::span<const std::byte> bytes);

// The digest of the numbers' bytes as they lie in memory. Numbers only: a struct's padding is not
// part of its value.
template <class T>
  requires std::is_arithmetic_v<T>
Digest128 xxh3_128_of(std::span<const T> values) {
  return xxh3_128(std::as_bytes(values));
}

}  // namespace kvant
