// SHA-256 (FIPS 180-4), for identity: what must not collide even when somebody tries. Checksums of
// payloads are base/hash.h.
//
// Rejected: an implementation of our own (a page key is made for every 128 tokens, and the
// library's uses the processor's instructions), BLAKE2b (no faster with those instructions, and
// fewer tools print it).
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "kvant/base/result.h"

// The library's context (EVP_MD_CTX), which nobody but sha256.cc looks into.
struct evp_md_ctx_st;

namespace kvant {

struct Digest256 {
  std::array<std::byte, 32> bytes{};

  friend bool operator==(const Digest256&, const Digest256&) = default;
  // 64 lower-case hexadecimal digits.
  std::string hex() const;
};

// A digest over bytes that come in pieces. Move-only.
class Sha256 {
 public:
  // Errors: kOutOfMemory; kUnsupported when the system's library is set up without SHA-256.
  static Result<Sha256> create();

  // How bytes are cut into pieces does not matter. A failure is kept for finish.
  void update(std::span<const std::byte> bytes) noexcept;
  // Ends the digest; only destruction may follow. Errors: kUnsupported when the library failed.
  Result<Digest256> finish() noexcept;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  Sha256() = default;

  std::unique_ptr<evp_md_ctx_st, Free> context_;
  bool failed_ = false;
};

}  // namespace kvant
