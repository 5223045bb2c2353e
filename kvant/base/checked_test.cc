#include "kvant/base/checked.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace kvant {
namespace {

constexpr auto kMaxI64 = std::numeric_limits<std::int64_t>::max();
constexpr auto kMinI64 = std::numeric_limits<std::int64_t>::min();
constexpr auto kMaxU64 = std::numeric_limits<std::uint64_t>::max();

TEST(CheckedArithmetic, SumsAtTheBordersOfTheTypeAreExactOrNone) {
  EXPECT_EQ(checked_add<std::int64_t>(kMaxI64 - 1, 1), kMaxI64);
  EXPECT_EQ(checked_add<std::int64_t>(kMaxI64, 1), std::nullopt);
  EXPECT_EQ(checked_add<std::int64_t>(kMinI64, -1), std::nullopt);
  EXPECT_EQ(checked_add<std::uint64_t>(kMaxU64, 0), kMaxU64);
  EXPECT_EQ(checked_add<std::uint64_t>(kMaxU64, 1), std::nullopt);
}

TEST(CheckedArithmetic, ProductsAtTheBordersOfTheTypeAreExactOrNone) {
  EXPECT_EQ(checked_mul<std::int64_t>(std::int64_t{1} << 31, std::int64_t{1} << 31),
            std::int64_t{1} << 62);
  EXPECT_EQ(checked_mul<std::int64_t>(std::int64_t{1} << 32, std::int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(checked_mul<std::int64_t>(kMinI64, -1), std::nullopt);
  EXPECT_EQ(checked_mul<std::uint64_t>(kMaxU64, 0), 0U);
}

// Every pair of bytes against arithmetic that is wide enough not to overflow.
TEST(CheckedArithmetic, AgreesWithWiderArithmeticOnAllPairsOfBytes) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const auto x = static_cast<std::uint8_t>(a);
      const auto y = static_cast<std::uint8_t>(b);
      EXPECT_EQ(checked_add(x, y).has_value(), a + b < 256);
      EXPECT_EQ(checked_mul(x, y).has_value(), a * b < 256);
      const int up = b == 0 ? 256 : (a + b - 1) / b * b;
      const auto rounded = checked_round_up(x, y);
      // Rounding may pass through value + step - 1, which must fit as well.
      if (b == 0 || a + b - 1 >= 256) {
        EXPECT_EQ(rounded, std::nullopt) << a << " to " << b;
      } else {
        EXPECT_EQ(rounded, static_cast<std::uint8_t>(up)) << a << " to " << b;
      }
    }
  }
}

TEST(CheckedArithmetic, AProductOfManyFactorsStopsAtTheFirstThatDoesNotFit) {
  EXPECT_EQ(checked_product<std::int64_t>({}), 1);
  EXPECT_EQ(checked_product<std::int64_t>({2, 3, 7}), 42);
  EXPECT_EQ(checked_product<std::int64_t>({kMaxI64, 2}), std::nullopt);
  EXPECT_EQ(checked_product<std::int64_t>({kMaxI64, 2, 0}), std::nullopt);
}

TEST(CheckedBytes, AreTheProductOfElementsAndTheirSize) {
  const Result<Bytes> bytes = checked_bytes(Elements(1000), 4);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, Bytes(4000));
  ASSERT_TRUE(checked_bytes(Elements(0), 4));
}

TEST(CheckedBytes, OverflowFoldsIntoOutOfMemory) {
  const Result<Bytes> bytes = checked_bytes(Elements(kMaxI64 / 2), 4);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error(), (Error{.code = ErrorCode::kOutOfMemory, .actual = kMaxU64}));
}

TEST(CheckedBytes, NegativeFactorsAreRefusedEvenWhenTheirProductIsPositive) {
  EXPECT_FALSE(checked_bytes(Elements(-1), 4));
  EXPECT_FALSE(checked_bytes(Elements(-3), -4));
}

}  // namespace
}  // namespace kvant
