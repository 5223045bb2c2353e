#include "kvant/kernels/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kvant/base/prng.h"

namespace kvant::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Distance of `got` from `wanted` in units of the last place of a binary64 number there.
double ulps64(double got, long double wanted) {
  int exponent = 0;
  std::frexp(static_cast<double>(wanted), &exponent);
  const long double ulp = std::ldexp(1.0L, std::max(exponent - 53, -1074));
  return static_cast<double>(std::fabs(static_cast<long double>(got) - wanted) / ulp);
}

class Uniform {
 public:
  explicit Uniform(std::uint64_t seed) : random_(seed) {}
  double operator()(double low, double high) { return low + (high - low) * random_.next_double(); }

 private:
  Xoshiro256 random_;
};

TEST(Exp32, IsWithinOneUlpWhereverTheResultIsNormal) {
  // Every 211th number of the range, all exponents and both signs.
  for (std::uint64_t bits = 0; bits <= 0xFFFFFFFFU; bits += 211) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (!(x >= -87.33654F && x <= 88.72283F)) continue;
    const double wanted = std::exp(static_cast<double>(x));
    int exponent = 0;
    std::frexp(wanted, &exponent);
    const double ulp = std::ldexp(1.0, exponent - 24);
    ASSERT_LT(std::fabs(static_cast<double>(exp32(x)) - wanted), ulp) << x;
  }
}

TEST(Exp32, EndsInZeroInfinityAndNan) {
  EXPECT_GE(exp32(-87.33654F), std::numeric_limits<float>::min());
  EXPECT_EQ(exp32(std::nextafter(-87.33654F, -100.0F)), 0.0F);
  EXPECT_FALSE(std::signbit(exp32(-1e30F)));
  EXPECT_TRUE(std::isfinite(exp32(88.72283F)));
  EXPECT_TRUE(std::isinf(exp32(std::nextafter(88.72283F, 100.0F))));
  EXPECT_EQ(exp32(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_TRUE(std::isinf(exp32(std::numeric_limits<float>::infinity())));
  EXPECT_TRUE(std::isnan(exp32(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(exp32(0.0F), 1.0F);
  EXPECT_EQ(exp32(-0.0F), 1.0F);
}

TEST(Exp64, IsWithinOneUlp) {
  Uniform uniform(1);
  for (int i = 0; i < 200000; ++i) {
    const double x = i % 2 == 0 ? uniform(-708.0, 709.7) : uniform(-2.0, 2.0);
    ASSERT_LT(ulps64(exp64(x), std::exp(static_cast<long double>(x))), 1.0) << x;
  }
}

TEST(Exp64, EndsInZeroInfinityAndNan) {
  EXPECT_EQ(exp64(0.0), 1.0);
  EXPECT_EQ(exp64(710.0), kInfinity);
  EXPECT_EQ(exp64(-746.0), 0.0);
  EXPECT_EQ(exp64(-745.0), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(exp64(-kInfinity), 0.0);
  EXPECT_TRUE(std::isnan(exp64(std::numeric_limits<double>::quiet_NaN())));
}

TEST(Log64, IsWithinOneUlp) {
  Uniform uniform(2);
  for (int i = 0; i < 200000; ++i) {
    const double x = i % 2 == 0 ? std::exp(uniform(-744.0, 709.0)) : uniform(0.5, 2.0);
    ASSERT_LT(ulps64(log64(x), std::log(static_cast<long double>(x))), 0.75) << x;
  }
}

TEST(Log64, EndsInInfinityAndNan) {
  EXPECT_EQ(log64(1.0), 0.0);
  EXPECT_EQ(log64(0.0), -kInfinity);
  EXPECT_EQ(log64(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(log64(-1.0)));
  EXPECT_TRUE(std::isnan(log64(std::numeric_limits<double>::quiet_NaN())));
}

TEST(Pow64, GivesInverseFrequenciesToNearlyFullPrecision) {
  Uniform uniform(3);
  for (int i = 0; i < 200000; ++i) {
    const double base = std::exp(uniform(-20.0, 20.0));
    const double exponent = uniform(-2.0, 2.0);
    const long double wanted =
        std::pow(static_cast<long double>(base), static_cast<long double>(exponent));
    const long double error = std::fabs(static_cast<long double>(pow64(base, exponent)) - wanted);
    ASSERT_LT(static_cast<double>(error / wanted), 3e-16) << base << " " << exponent;
  }
}

TEST(Pow64, KeepsTheEdgesOfTheBase) {
  EXPECT_EQ(pow64(0.0, 0.0), 1.0);
  EXPECT_EQ(pow64(0.0, 2.0), 0.0);
  EXPECT_EQ(pow64(0.0, -2.0), kInfinity);
  EXPECT_EQ(pow64(2.0, 10.0), 1024.0);
  EXPECT_EQ(pow64(1e300, 1e300), kInfinity);
  EXPECT_EQ(pow64(1e300, -1e300), 0.0);
  EXPECT_TRUE(std::isnan(pow64(-1.0, 2.0)));
}

TEST(SinCos64, IsWithinOneUlpAtShortAndLongAngles) {
  Uniform uniform(4);
  for (const double range : {1.0, 1e3, 1e6, 1e9, 2147483647.0}) {
    for (int i = 0; i < 40000; ++i) {
      const double x = uniform(-range, range);
      const SinCos got = sincos64(x);
      ASSERT_LT(ulps64(got.sin, std::sin(static_cast<long double>(x))), 1.0) << x;
      ASSERT_LT(ulps64(got.cos, std::cos(static_cast<long double>(x))), 1.0) << x;
    }
  }
}

TEST(SinCos64, IsWithinOneUlpBesideMultiplesOfAQuarterTurn) {
  Uniform uniform(5);
  constexpr double kQuarter = 1.5707963267948966;
  for (int i = 0; i < 40000; ++i) {
    const double x = std::floor(uniform(-1.3e9, 1.3e9)) * kQuarter;
    const SinCos got = sincos64(x);
    ASSERT_LT(ulps64(got.sin, std::sin(static_cast<long double>(x))), 1.0) << x;
    ASSERT_LT(ulps64(got.cos, std::cos(static_cast<long double>(x))), 1.0) << x;
  }
}

TEST(SinCos64, IsNanOutsideItsRange) {
  EXPECT_TRUE(std::isnan(sincos64(0x1p+31).sin));
  EXPECT_TRUE(std::isnan(sincos64(kInfinity).cos));
  EXPECT_EQ(sincos64(0.0).sin, 0.0);
  EXPECT_EQ(sincos64(0.0).cos, 1.0);
}

}  // namespace
}  // namespace kvant::kernels
