#include "kvant/base/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace kvant {
namespace {

// Byte i is (31 i + 7) mod 256.
std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + 7);
  return bytes;
}

// Made by `xxhsum -H2` 0.8.1 on files with the pattern's bytes; the sizes are the borders between
// the algorithm's branches.
TEST(Xxh3, AgreesWithXxhsumAtEveryBranchOfTheAlgorithm) {
  struct Known {
    std::size_t size;
    std::string_view hex;
  };
  constexpr std::array kKnown = {Known{0, "99aa06d3014798d86001c324468d497f"},
                                 Known{1, "495b62073ef70ca44c5cca45d0f4811f"},
                                 Known{3, "46f66cb93538156515f7093b173d005c"},
                                 Known{8, "803c675a846cc6c256bb836ceb6d4baa"},
                                 Known{16, "650fe308c566747df853dd94614dfa07"},
                                 Known{17, "18217300b5132d5a78c349fe81b2f26c"},
                                 Known{128, "b4f87b99d2db8a511e04fad9f0cacb4d"},
                                 Known{129, "6881633650cd8924c51bc887976aef63"},
                                 Known{240, "de57aab31e77a2ff93e173833f75ab66"},
                                 Known{241, "92b991a7192f3f080b3b630948ce4a00"},
                                 Known{1024, "4c17271c906df79223bc880ebf0d29c6"},
                                 Known{1025, "70a4eb1b9691d77fc09fdfbc398c7d82"},
                                 Known{5000, "3bf60aa89c7feeaa559fff92c2b7f8ee"}};
  for (const Known& known : kKnown) {
    EXPECT_EQ(xxh3_128(pattern(known.size)).hex(), known.hex) << known.size << " bytes";
  }
}

TEST(Xxh3, NumbersHashAsTheirBytes) {
  const std::vector<float> numbers = {1.0F, -2.5F, 0.0F};
  EXPECT_EQ(xxh3_128_of(std::span<const float>(numbers)),
            xxh3_128(std::as_bytes(std::span(numbers))));
}

TEST(Xxh3, EveryFlippedBitChangesTheDigest) {
  std::vector<std::byte> bytes = pattern(40);
  const Digest128 before = xxh3_128(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1U << (bit % 8));
    bytes[bit / 8] ^= mask;
    EXPECT_NE(xxh3_128(bytes), before) << "bit " << bit;
    bytes[bit / 8] ^= mask;
  }
}

TEST(Xxh3Stream, GivesTheDigestOfTheWholeHoweverItIsCut) {
  Xxh3Stream stream = Xxh3Stream::create().value();
  for (const std::size_t size : {0U, 1U, 240U, 241U, 1025U, 5000U}) {
    const std::vector<std::byte> bytes = pattern(size);
    for (const std::size_t piece : {1U, 63U, 64U, 256U, 257U, 5000U}) {
      stream.reset();
      stream.update({});
      for (std::size_t at = 0; at < size; at += piece) {
        stream.update(std::span(bytes).subspan(at, std::min(piece, size - at)));
      }
      EXPECT_EQ(stream.digest(), xxh3_128(bytes)) << size << " bytes in pieces of " << piece;
    }
  }
}

TEST(Digest128, PrintsTheHighWordFirstWithLeadingZeros) {
  EXPECT_EQ((Digest128{.high = 0x1a, .low = 0x2b}).hex(), "000000000000001a000000000000002b");
}

}  // namespace
}  // namespace kvant
