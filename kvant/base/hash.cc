#include "kvant/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace kvant {

std::string Digest128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Digest128 xxh3_128(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.high = hash.high64, .low = hash.low64};
}

}  // namespace kvant
