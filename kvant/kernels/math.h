// exp, log, pow, sin and cos of our own: the same bits on every machine.
//
// The C library picks variants of these by processor, and their last bits differ; whatever shapes
// state, logits or sampling uses these instead. All are chains of +, *, / and fma in one order, so
// they give the same bits with and without FMA hardware. docs/numerics.md lists the coefficients.
#pragma once

namespace kvant::kernels {

// e^x in binary32, within 1 ulp. +0 below -87.33654 (no subnormal results), +infinity above
// 88.72283, NaN for NaN.
float exp32(float x);

// e^x in binary64, within 1 ulp; subnormal results may be off by 1 ulp of a subnormal more.
double exp64(double x);

// The natural logarithm, within 1 ulp. log64(0) is -infinity; NaN below 0 and for NaN.
double log64(double x);

// base^exponent for base > 0, relative error below 3e-16 where the result is normal and
// |exponent * log(base)| < 700. NaN for base < 0 or a NaN; pow64(0, y) is 0, 1 or infinity.
double pow64(double base, double exponent);

struct SinCos {
  double sin = 0.0;
  double cos = 1.0;
};
// Requires: |x| < 2^31 (else NaN). Within 1 ulp of binary64.
SinCos sincos64(double x);

}  // namespace kvant::kernels
