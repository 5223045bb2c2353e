#include "kvant/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>
// Puts functions that look for the processor's vectors in place of those of the baseline.
#if defined(KVANT_XXHASH_DISPATCH)
#include <xxh_x86dispatch.h>
#endif

namespace kvant {
namespace {

// The first call chooses, without a lock of its own.
void choose_kernels() {
  static const std::uint64_t kChosen = XXH3_128bits(nullptr, 0).low64;
  static_cast<void>(kChosen);
}

}  // namespace

std::string Digest128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Digest128 xxh3_128(std::span<const std::byte> bytes) {
  choose_kernels();
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.high = hash.high64, .low = hash.low64};
}

void Xxh3Stream::Free::operator()(XXH3_state_s* state) const noexcept { XXH3_freeState(state); }

Result<Xxh3Stream> Xxh3Stream::create() {
  choose_kernels();
  Xxh3Stream stream;
  stream.state_.reset(XXH3_createState());
  if (!stream.state_) return Error{.code = ErrorCode::kOutOfMemory};
  stream.reset();
  return stream;
}

void Xxh3Stream::update(std::span<const std::byte> bytes) noexcept {
  if (bytes.empty()) return;  // whose pointer may be null, which the library refuses
  KVANT_CHECK(XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()) == XXH_OK);
}

Digest128 Xxh3Stream::digest() const noexcept {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return {.high = hash.high64, .low = hash.low64};
}

void Xxh3Stream::reset() noexcept { KVANT_CHECK(XXH3_128bits_reset(state_.get()) == XXH_OK); }

}  // namespace kvant
