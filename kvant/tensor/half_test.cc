#include "kvant/tensor/half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvant::tensor {
namespace {

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// An oracle from the definitions, in binary64, where every value and every tie below is exact:
// the half or bfloat16 of `value` with `mantissa_bits` and exponents from `lowest` to `highest`.
struct Format {
  int mantissa_bits;
  int lowest;
  int highest;
};
constexpr Format kHalf{10, -14, 15};
constexpr Format kBfloat{7, -126, 127};

// The value that rounding to nearest even gives, or infinity. value is finite.
double rounded(double value, const Format& format) {
  if (value == 0.0) return value;
  const int exponent = std::max(std::ilogb(value), format.lowest);
  const double step = std::ldexp(1.0, exponent - format.mantissa_bits);
  const double nearest = std::nearbyint(value / step) * step;  // ties to even by default
  const double beyond = std::ldexp(1.0, format.highest + 1);
  return std::abs(nearest) >= beyond ? std::copysign(INFINITY, value) : nearest;
}

// Every sign, exponent and upper ten mantissa bits, with low bits at, below and above every tie.
std::vector<std::uint32_t> interesting_floats() {
  std::vector<std::uint32_t> out;
  constexpr std::uint32_t kLow[] = {0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF};
  for (std::uint32_t high = 0; high < (1U << 19); ++high) {
    for (const std::uint32_t low : kLow) out.push_back((high << 13) | low);
  }
  return out;
}

TEST(Half, WideningIsExactForAllValues) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const float wide = f32_from_f16(static_cast<std::uint16_t>(h));
    const int exponent = static_cast<int>((h >> 10) & 0x1F);
    const double mantissa = h & 0x3FF;
    const double sign = (h & 0x8000) != 0 ? -1.0 : 1.0;
    if (exponent == 31 && mantissa != 0) {
      ASSERT_TRUE(std::isnan(wide)) << h;
      continue;
    }
    const double expected = exponent == 31  ? INFINITY
                            : exponent == 0 ? std::ldexp(mantissa, -24)
                                            : std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_EQ(static_cast<double>(wide), sign * expected) << h;
    ASSERT_EQ(std::signbit(wide), sign < 0) << h;
  }
}

TEST(Half, NarrowingUndoesWideningForAllValues) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const auto half = static_cast<std::uint16_t>(h);
    const bool is_nan = (h & 0x7C00) == 0x7C00 && (h & 0x3FF) != 0;
    const auto expected = is_nan ? static_cast<std::uint16_t>(h | 0x200) : half;  // made quiet
    ASSERT_EQ(f16_from_f32(f32_from_f16(half)), expected) << h;
  }
}

TEST(Half, NarrowingRoundsToNearestEvenAroundEveryTie) {
  for (const std::uint32_t bits : interesting_floats()) {
    const float value = float_of(bits);
    if (!std::isfinite(value)) continue;
    const float back = f32_from_f16(f16_from_f32(value));
    ASSERT_EQ(static_cast<double>(back), rounded(value, kHalf)) << std::hex << bits;
    ASSERT_EQ(std::signbit(back), std::signbit(value)) << std::hex << bits;
  }
}

TEST(Half, OverflowBeginsHalfwayBeyondTheLargestValue) {
  EXPECT_EQ(f16_from_f32(65504.0F), 0x7BFF);
  EXPECT_EQ(f16_from_f32(std::nextafter(65520.0F, 0.0F)), 0x7BFF);
  EXPECT_EQ(f16_from_f32(65520.0F), 0x7C00);
  EXPECT_EQ(f16_from_f32(-65520.0F), 0xFC00);
  EXPECT_EQ(f16_from_f32(std::numeric_limits<float>::infinity()), 0x7C00);
}

TEST(Half, UnderflowEndsAtHalfTheSmallestValue) {
  EXPECT_EQ(f16_from_f32(0x1p-24F), 0x0001);
  EXPECT_EQ(f16_from_f32(0x1p-25F), 0x0000);  // a tie, to even
  EXPECT_EQ(f16_from_f32(0x1.000002p-25F), 0x0001);
  EXPECT_EQ(f16_from_f32(-0x1p-26F), 0x8000);
}

TEST(Half, NansStayNansAndKeepTheirUpperPayload) {
  EXPECT_EQ(f16_from_f32(float_of(0x7FC00000)), 0x7E00);
  EXPECT_EQ(f16_from_f32(float_of(0xFF800001)), 0xFE00);  // signalling, payload lost below
  EXPECT_EQ(f16_from_f32(float_of(0x7FB54000)), 0x7FAA);
  EXPECT_EQ(bits_of(f32_from_f16(0x7D55)), 0x7FEAA000U);
}

#if defined(__x86_64__)
[[gnu::target("f16c")]] float hardware_widened(std::uint16_t bits) { return _cvtsh_ss(bits); }
[[gnu::target("f16c")]] std::uint16_t hardware_narrowed(float value) {
  return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
}

TEST(Half, AgreesBitForBitWithTheProcessorsConversions) {
  if (__builtin_cpu_supports("f16c") == 0) GTEST_SKIP() << "this processor has no F16C";
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const auto half = static_cast<std::uint16_t>(h);
    ASSERT_EQ(bits_of(f32_from_f16(half)), bits_of(hardware_widened(half))) << h;
  }
  for (const std::uint32_t bits : interesting_floats()) {
    ASSERT_EQ(f16_from_f32(float_of(bits)), hardware_narrowed(float_of(bits))) << std::hex << bits;
  }
}
#endif

TEST(Bfloat16, NarrowingUndoesWideningForAllValues) {
  for (std::uint32_t b = 0; b < 0x10000; ++b) {
    const auto bf16 = static_cast<std::uint16_t>(b);
    ASSERT_EQ(bits_of(f32_from_bf16(bf16)), b << 16);
    const bool is_nan = (b & 0x7F80) == 0x7F80 && (b & 0x7F) != 0;
    const auto expected = is_nan ? static_cast<std::uint16_t>(b | 0x40) : bf16;
    ASSERT_EQ(bf16_from_f32(f32_from_bf16(bf16)), expected) << b;
  }
}

TEST(Bfloat16, NarrowingRoundsToNearestEvenAroundEveryTie) {
  constexpr std::uint32_t kLow[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (const std::uint32_t low : kLow) {
      const float value = float_of((high << 16) | low);
      if (!std::isfinite(value)) continue;
      const float back = f32_from_bf16(bf16_from_f32(value));
      ASSERT_EQ(static_cast<double>(back), rounded(value, kBfloat)) << high << " " << low;
    }
  }
}

TEST(Bfloat16, OverflowGivesInfinity) {
  EXPECT_EQ(bf16_from_f32(float_of(0x7F7F7FFF)), 0x7F7F);
  EXPECT_EQ(bf16_from_f32(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(bf16_from_f32(std::numeric_limits<float>::lowest()), 0xFF80);
}

TEST(Bfloat16, ANanWhosePayloadIsInTheLowerHalfStaysANan) {
  EXPECT_EQ(bf16_from_f32(float_of(0x7F800001)), 0x7FC0);
  EXPECT_EQ(bf16_from_f32(float_of(0xFFFFFFFF)), 0xFFFF);
}

// constexpr, so usable in tables.
static_assert(f16_from_f32(1.0F) == 0x3C00 && f32_from_f16(0x3C00) == 1.0F);
static_assert(bf16_from_f32(1.0F) == 0x3F80 && f32_from_bf16(0x3F80) == 1.0F);

}  // namespace
}  // namespace kvant::tensor
