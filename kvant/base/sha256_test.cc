#include "kvant/base/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace kvant {
namespace {

std::string sha256_hex(std::span<const std::byte> bytes, std::size_t piece) {
  Sha256 sha = Sha256::create().value();
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    sha.update(bytes.subspan(at, std::min(piece, bytes.size() - at)));
  }
  return sha.finish().value().hex();
}

std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text)), text.size() + 1);
}

// The examples of FIPS 180-4 and of NIST's example values.
TEST(Sha256, AgreesWithTheStandardsExamples) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  const std::vector<std::byte> million(1000000, std::byte{'a'});
  EXPECT_EQ(sha256_hex(million, million.size()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowBytesAreCut) {
  std::vector<std::byte> bytes(300);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31 + 7);
  const std::string whole = sha256_hex(bytes, bytes.size());
  for (const std::size_t piece : {1U, 3U, 63U, 64U, 65U, 299U}) {
    EXPECT_EQ(sha256_hex(bytes, piece), whole) << piece;
  }
}

}  // namespace
}  // namespace kvant
