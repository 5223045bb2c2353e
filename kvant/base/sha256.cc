#include "kvant/base/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

namespace kvant {

std::string Digest256::hex() const {
  std::string out;
  for (const std::byte byte : bytes) out += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return out;
}

void Sha256::Free::operator()(evp_md_ctx_st* context) const noexcept { EVP_MD_CTX_free(context); }

Result<Sha256> Sha256::create() {
  Sha256 sha;
  sha.context_.reset(EVP_MD_CTX_new());
  if (!sha.context_) return Error{.code = ErrorCode::kOutOfMemory};
  if (EVP_DigestInit_ex(sha.context_.get(), EVP_sha256(), nullptr) != 1) {
    return Error{.code = ErrorCode::kUnsupported};
  }
  return sha;
}

void Sha256::update(std::span<const std::byte> bytes) noexcept {
  failed_ = failed_ || EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1;
}

Result<Digest256> Sha256::finish() noexcept {
  Digest256 digest;
  auto* out = reinterpret_cast<unsigned char*>(digest.bytes.data());
  if (failed_ || EVP_DigestFinal_ex(context_.get(), out, nullptr) != 1) {
    return Error{.code = ErrorCode::kUnsupported};
  }
  return digest;
}

}  // namespace kvant
