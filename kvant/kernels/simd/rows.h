// Row functions over a target's Vector of sixteen lanes.
//
// Templates on a type of an anonymous namespace have internal linkage, so every object file keeps
// its own copy (kernel_table.h says why). Incomplete vectors are filled with numbers that leave the
// result as it is: -0 for sums (x + -0 is x, also for x = -0), -infinity for maxima.
#pragma once

#include "kvant/kernels/exp32_terms.h"
#include "kvant/kernels/kernel_table.h"

namespace kvant::kernels::simd {

constexpr float kInfinity = __builtin_inff();

template <class Vector>
Vector exp32(Vector x) {
  namespace t = exp32_terms;
  const Vector shifted = fma(x, Vector::all(t::kLog2E), Vector::all(t::kRound));
  const Vector n = sub(shifted, Vector::all(t::kRound));
  Vector r = fnma(n, Vector::all(t::kLn2Hi), x);
  r = fnma(n, Vector::all(t::kLn2Lo), r);
  Vector p = fma(Vector::all(t::kE6), r, Vector::all(t::kE5));
  p = fma(p, r, Vector::all(t::kE4));
  p = fma(p, r, Vector::all(t::kE3));
  p = fma(p, r, Vector::all(t::kE2));
  p = fma(p, r, Vector::all(1.0F));
  p = fma(p, r, Vector::all(1.0F));
  Vector y = scale_by_exponent(p, shifted);
  y = where_greater(x, Vector::all(t::kHighest), Vector::all(kInfinity), y);
  y = where_greater(Vector::all(t::kLowest), x, Vector::zero(), y);
  return keep_nan(x, y);
}

template <class Vector>
float exp32_of(float x) {
  float lanes[kLanes];
  exp32(Vector::all(x)).store(lanes);
  return lanes[0];
}

// Calls f(vector of x, where) for the vectors of n numbers and stores what it returns.
template <class Vector, class F>
void map_row(const float* x, std::int64_t n, float* out, const F& f) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(Vector::load(x + i)).store(out + i);
  if (i < n) f(Vector::load_n(x + i, n - i, 0.0F)).store_n(out + i, n - i);
}

template <class Vector>
Vector silu_mul(Vector gate, Vector up) {
  const Vector one_more = add(Vector::all(1.0F), exp32(negate(gate)));
  return mul(div(gate, one_more), up);
}

template <class Vector>
void silu_mul_row(const float* gate, const float* up, std::int64_t n, float* out) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    silu_mul(Vector::load(gate + i), Vector::load(up + i)).store(out + i);
  }
  if (i < n) {
    const Vector g = Vector::load_n(gate + i, n - i, 0.0F);
    silu_mul(g, Vector::load_n(up + i, n - i, 0.0F)).store_n(out + i, n - i);
  }
}

template <class Vector>
void add_row(const float* x, std::int64_t n, float* y) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) add(Vector::load(y + i), Vector::load(x + i)).store(y + i);
  if (i < n) {
    const Vector last = Vector::load_n(x + i, n - i, 0.0F);
    add(Vector::load_n(y + i, n - i, 0.0F), last).store_n(y + i, n - i);
  }
}

template <class Vector>
void exp32_row(const float* x, std::int64_t n, float* out) {
  map_row<Vector>(x, n, out, [](Vector v) { return exp32(v); });
}

template <class Vector>
float sum_of_squares(const float* x, std::int64_t n) {
  Vector sum = Vector::zero();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vector v = Vector::load(x + i);
    sum = fma(v, v, sum);
  }
  if (i < n) {
    sum = fma(Vector::load_n(x + i, n - i, -0.0F), Vector::load_n(x + i, n - i, 0.0F), sum);
  }
  return tree(sum);
}

template <class Vector>
void rms_norm(const RmsNormArgs& args) {
  const std::int64_t n = args.n;
  const float mean = sum_of_squares<Vector>(args.x, n) / static_cast<float>(n);
  const Vector scale = Vector::all(1.0F / Vector::square_root(mean + args.eps));
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    mul(mul(Vector::load(args.x + i), scale), Vector::load(args.weight + i)).store(args.out + i);
  }
  if (i < n) {
    const Vector x = Vector::load_n(args.x + i, n - i, 0.0F);
    const Vector w = Vector::load_n(args.weight + i, n - i, 0.0F);
    mul(mul(x, scale), w).store_n(args.out + i, n - i);
  }
}

template <class Vector>
float largest_of(const float* x, std::int64_t n) {
  Vector max = Vector::all(-kInfinity);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) max = larger(Vector::load(x + i), max);
  if (i < n) max = larger(Vector::load_n(x + i, n - i, -kInfinity), max);
  return largest(max);
}

// The sum of n numbers by lanes and tree.
template <class Vector>
float sum_of(const float* x, std::int64_t n) {
  Vector sum = Vector::zero();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum = add(sum, Vector::load(x + i));
  if (i < n) sum = add(sum, Vector::load_n(x + i, n - i, -0.0F));
  return tree(sum);
}

template <class Vector>
bool is_all_least(const float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (x[i] != -kInfinity) return false;
  }
  return true;
}

template <class Vector>
void softmax(const float* x, std::int64_t n, float* out) {
  const float max = largest_of<Vector>(x, n);
  if (max == -kInfinity && is_all_least<Vector>(x, n)) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = 0.0F;
    return;
  }
  const Vector most = Vector::all(max);
  map_row<Vector>(x, n, out, [&](Vector v) { return exp32(sub(v, most)); });
  const Vector sum = Vector::all(sum_of<Vector>(out, n));
  map_row<Vector>(out, n, out, [&](Vector v) { return div(v, sum); });
}

}  // namespace kvant::kernels::simd
