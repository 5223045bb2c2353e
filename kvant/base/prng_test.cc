#include "kvant/base/prng.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace kvant {
namespace {

// The vectors were computed apart from this code, from the algorithms' papers.
TEST(SplitMix64, GivesThePublishedNumbersForSeeds0And42) {
  SplitMix64 zero(0);
  for (const std::uint64_t expected :
       {0xe220a8397b1dcdafU, 0x6e789e6aa1b965f4U, 0x06c45d188009454fU, 0xf88bb8a8724c81ecU}) {
    EXPECT_EQ(zero.next(), expected);
  }
  SplitMix64 answer(42);
  for (const std::uint64_t expected :
       {0xbdd732262feb6e95U, 0x28efe333b266f103U, 0x47526757130f9f52U, 0x581ce1ff0e4ae394U}) {
    EXPECT_EQ(answer.next(), expected);
  }
}

TEST(Xoshiro256, GivesThePublishedNumbersForSeeds0And42) {
  Xoshiro256 zero(0);
  for (const std::uint64_t expected :
       {0x99ec5f36cb75f2b4U, 0xbf6e1f784956452aU, 0x1a5f849d4933e6e0U}) {
    EXPECT_EQ(zero.next(), expected);
  }
  Xoshiro256 answer(42);
  for (const std::uint64_t expected :
       {0x15780b2e0c2ec716U, 0x6104d9866d113a7eU, 0xae17533239e499a1U}) {
    EXPECT_EQ(answer.next(), expected);
  }
}

TEST(Xoshiro256, DoublesAreTheTop53Bits) {
  Xoshiro256 numbers(42);
  EXPECT_EQ(numbers.next_double(), static_cast<double>(0x15780b2e0c2ec716U >> 11) / 0x1p53);
}

TEST(Xoshiro256, SignedFloatsFillTheirHalfOpenRangeEvenly) {
  Xoshiro256 numbers(7);
  std::array<int, 8> counts{};
  constexpr int kDraws = 80000;
  for (int i = 0; i < kDraws; ++i) {
    const float x = numbers.next_signed_float();
    ASSERT_GE(x, -1.0F);
    ASSERT_LT(x, 1.0F);
    ++counts[static_cast<std::size_t>((x + 1.0F) * 4.0F)];
  }
  // Five standard deviations of a binomial count of 1/8 are about 470.
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 8, 470);
}

}  // namespace
}  // namespace kvant
