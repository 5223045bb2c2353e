#include "kvant/kernels/math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

#include "kvant/kernels/exp32_terms.h"

namespace kvant::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Adding and subtracting it rounds a number below 2^51 to the nearest integer, ties to even.
constexpr double kRound = 0x1.8p+52;

// A sum of two numbers that do not overlap: about 106 bits.
struct Pair {
  double hi = 0.0;
  double lo = 0.0;
};

// hi + lo exactly, for |a| >= |b| or a == 0.
Pair sum_of(double a, double b) {
  const double hi = a + b;
  return {hi, b - (hi - a)};
}

double power_of_two(std::int64_t n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

// 1/k! for k = 13 ... 2: e^r = 1 + r + r^2 (1/2! + r/3! + ...); the next term is below 5e-18.
constexpr double kExpTerms[] = {1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0,
                                1.0 / 3628800.0,    1.0 / 362880.0,    1.0 / 40320.0,
                                1.0 / 5040.0,       1.0 / 720.0,       1.0 / 120.0,
                                1.0 / 24.0,         1.0 / 6.0,         1.0 / 2.0};

// e^(x + lo) for |lo| far below |x|'s last place.
double exp_of(double x, double lo) {
  constexpr double kHighest = 0x1.62e42fefa39efp+9;  // largest x with a finite result
  constexpr double kLowest = -0x1.74910d52d3051p+9;  // below: under half the least subnormal
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2Hi = 0x1.62e42fefa39efp-1;
  constexpr double kLn2Lo = 0x1.abc9e3b39803fp-56;
  if (std::isnan(x)) return x;
  if (x > kHighest) return kInfinity;
  if (x < kLowest) return 0.0;
  const double n = std::fma(x, kLog2E, kRound) - kRound;
  const double r_hi = std::fma(-n, kLn2Hi, x);
  // What is left as a sum of r and, far below it, r_lo.
  const double r_near = std::fma(-n, kLn2Lo, r_hi);
  const double r = r_near + lo;
  const double r_lo = std::fma(-n, kLn2Lo, r_hi - r_near) + ((r_near - r) + lo);
  double q = kExpTerms[0];
  for (std::size_t i = 1; i < std::size(kExpTerms); ++i) q = std::fma(q, r, kExpTerms[i]);
  const double p = 1.0 + (r + std::fma(r * r, q, r_lo));
  // Two factors, since 2^n alone may be out of range where the result is not.
  const auto exponent = static_cast<std::int64_t>(n);
  const std::int64_t half = exponent >> 1;
  return p * power_of_two(half) * power_of_two(exponent - half);
}

// 2/(2k+1) for k = 12 ... 1 of log((1+s)/(1-s)) = 2s + s (2/3 z + 2/5 z^2 + ...), z = s^2 < 0.0295.
constexpr double kLogTerms[] = {2.0 / 25.0, 2.0 / 23.0, 2.0 / 21.0, 2.0 / 19.0,
                                2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0, 2.0 / 11.0,
                                2.0 / 9.0,  2.0 / 7.0,  2.0 / 5.0,  2.0 / 3.0};

// The logarithm of a finite x > 0 to about 2^-60 of itself.
Pair log_of(double x) {
  constexpr double kLn2Hi = 0x1.62e42fefa38p-1;  // 42 bits: times an exponent it is exact
  constexpr double kLn2Lo = 0x1.ef35793c7673p-45;
  constexpr std::uint64_t kSqrtHalfBits = 0x3FE6A09E667F3BCDu;
  std::int64_t exponent = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p+54;
    exponent = -54;
  }
  // m = x / 2^k in [sqrt(1/2), sqrt(2)).
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::int64_t k = static_cast<std::int64_t>(bits - kSqrtHalfBits) >> 52;
  const double m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(k) << 52));
  const auto e = static_cast<double>(exponent + k);

  // s = (m - 1) / (m + 1) as a pair.
  const double f = m - 1.0;
  const Pair d = m >= 1.0 ? sum_of(m, 1.0) : sum_of(1.0, m);
  const double s = f / d.hi;
  const double s_lo = (std::fma(-s, d.hi, f) - s * d.lo) / d.hi;

  const double z = s * s;
  double q = kLogTerms[0];
  for (std::size_t i = 1; i < std::size(kLogTerms); ++i) q = std::fma(q, z, kLogTerms[i]);
  const Pair sum = sum_of(e * kLn2Hi, 2.0 * s);
  const double rest = std::fma(s * z, q, std::fma(e, kLn2Lo, 2.0 * s_lo));
  return sum_of(sum.hi, sum.lo + rest);
}

// x - n pi/2 as a pair, |hi| <= 0.7854; n is the nearest integer to x / (pi/2).
struct Reduced {
  Pair r;
  std::int64_t n = 0;
};

Reduced reduce(double x) {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr double kHalfPi1 = 0x1.921fb54442d18p+0;
  constexpr double kHalfPi2 = 0x1.1a62633145c07p-54;
  constexpr double kHalfPi3 = -0x1.f1976b7ed8fbcp-110;
  const double n = std::fma(x, kTwoOverPi, kRound) - kRound;
  // Exact: a multiple of 2^-53 below 1.
  const double r1 = std::fma(-n, kHalfPi1, x);
  const double t = n * kHalfPi2;
  const double t_lo = std::fma(n, kHalfPi2, -t);
  const double hi = r1 - t;
  // The error of r1 - t, whichever of the two is larger.
  const double back = hi - r1;
  const double hi_lo = (r1 - (hi - back)) - (t + back);
  const double lo = hi_lo - std::fma(n, kHalfPi3, t_lo);
  return {sum_of(hi, lo), static_cast<std::int64_t>(n)};
}

// (-1)^k / (2k+1)! for k = 8 ... 1, and (-1)^k / (2k)! for k = 9 ... 2.
constexpr double kSinTerms[] = {
    1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0,
    1.0 / 362880.0,          -1.0 / 5040.0,          1.0 / 120.0,        -1.0 / 6.0};
constexpr double kCosTerms[] = {
    -1.0 / 6402373705728000.0, 1.0 / 20922789888000.0, -1.0 / 87178291200.0, 1.0 / 479001600.0,
    -1.0 / 3628800.0,          1.0 / 40320.0,          -1.0 / 720.0,         1.0 / 24.0};

}  // namespace

float exp32(float x) {
  namespace t = exp32_terms;
  if (std::isnan(x)) return x;
  if (x > t::kHighest) return std::numeric_limits<float>::infinity();
  if (x < t::kLowest) return 0.0F;
  const float shifted = std::fma(x, t::kLog2E, t::kRound);
  const float n = shifted - t::kRound;
  float r = std::fma(-n, t::kLn2Hi, x);
  r = std::fma(-n, t::kLn2Lo, r);
  float p = std::fma(t::kE6, r, t::kE5);
  p = std::fma(p, r, t::kE4);
  p = std::fma(p, r, t::kE3);
  p = std::fma(p, r, t::kE2);
  p = std::fma(p, r, 1.0F);
  p = std::fma(p, r, 1.0F);
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) << 23;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + exponent);
}

double exp64(double x) { return exp_of(x, 0.0); }

double log64(double x) {
  if (std::isnan(x) || x == kInfinity) return x;
  if (x < 0.0) return kNan;
  if (x == 0.0) return -kInfinity;
  return log_of(x).hi;
}

double pow64(double base, double exponent) {
  if (std::isnan(base) || std::isnan(exponent) || base < 0.0) return kNan;
  if (exponent == 0.0 || base == 1.0) return 1.0;
  if (base == 0.0) return exponent > 0.0 ? 0.0 : kInfinity;
  if (base == kInfinity) return exponent > 0.0 ? kInfinity : 0.0;
  const Pair log = log_of(base);
  const double product = exponent * log.hi;
  if (!std::isfinite(product)) return product > 0.0 ? kInfinity : 0.0;
  const double rest = std::fma(exponent, log.hi, -product) + exponent * log.lo;
  return exp_of(product, rest);
}

SinCos sincos64(double x) {
  if (!(x > -0x1p+31 && x < 0x1p+31)) return {kNan, kNan};
  const auto [r, n] = reduce(x);
  const double z = r.hi * r.hi;
  double s = kSinTerms[0];
  double c = kCosTerms[0];
  for (std::size_t i = 1; i < std::size(kSinTerms); ++i) s = std::fma(s, z, kSinTerms[i]);
  for (std::size_t i = 1; i < std::size(kCosTerms); ++i) c = std::fma(c, z, kCosTerms[i]);
  const double half_z = 0.5 * z;
  const double sin = r.hi + std::fma(z * r.hi, s, std::fma(-half_z, r.lo, r.lo));
  const double w = 1.0 - half_z;
  const double cos = w + (((1.0 - w) - half_z) + std::fma(z * z, c, -(r.hi * r.lo)));
  switch (n & 3) {
    case 0:
      return {sin, cos};
    case 1:
      return {cos, -sin};
    case 2:
      return {-sin, -cos};
    default:
      return {-cos, sin};
  }
}

}  // namespace kvant::kernels
