// The constants of exp32, shared by the scalar function and every target's vector form.
//
//   t = fma(x, kLog2E, kRound);  n = t - kRound       (n: x / ln 2 to the nearest integer)
//   r = fma(-n, kLn2Hi, x);  r = fma(-n, kLn2Lo, r)   (|r| <= 0.3466; the first step is exact)
//   p = kE6;  p = fma(p, r, kE5) ... fma(p, r, kE2), fma(p, r, 1), fma(p, r, 1)
//   the exponent field of p grows by n
//
// kE2 ... kE6 minimise the largest relative error of 1 + r + r^2 Q(r) (Remez exchange, then rounded
// to binary32): 3.8e-9 before roundings.
#pragma once

#include <cstdint>

namespace kvant::kernels::exp32_terms {

constexpr float kLowest = -87.33654F;  // below: +0
constexpr float kHighest = 88.72283F;  // above: +infinity
constexpr float kLog2E = 0x1.715476p+0F;
constexpr float kRound = 0x1.8p+23F;  // adding it rounds to an integer in the low mantissa bits
constexpr std::int32_t kRoundBits = 0x4B400000;
constexpr float kLn2Hi = 0x1.62e430p-1F;
constexpr float kLn2Lo = -0x1.05c610p-29F;
constexpr float kE2 = 0x1.fffffcp-2F;
constexpr float kE3 = 0x1.555492p-3F;
constexpr float kE4 = 0x1.5558f2p-5F;
constexpr float kE5 = 0x1.1239e2p-7F;
constexpr float kE6 = 0x1.6a2434p-10F;

}  // namespace kvant::kernels::exp32_terms
