// Widening, narrowing and lane order over a target's Vector (simd/rows.h says how templates are
// kept apart).
#pragma once

#include "kvant/kernels/kernel_table.h"

namespace kvant::kernels::simd {

// Bytes of a number of F32, F16 or BF16.
template <tensor::Dtype kType>
constexpr std::int64_t kBytes = kType == tensor::Dtype::kF32 ? 4 : 2;

// An array of registers: bounds are ints beside which pointers move, sizes are not.
template <class T, int kN>
using Array = T[static_cast<std::size_t>(kN)];

// The first n < 16 numbers of kType; the other lanes are +0.
template <class Vector, tensor::Dtype kType>
Vector widen_n(const std::byte* from, std::int64_t n) {
  alignas(64) Array<std::byte, kLanes * kBytes<kType>> block = {};
  __builtin_memcpy(block, from, static_cast<std::size_t>(n * kBytes<kType>));
  return Vector::template widen<kType>(block);
}

template <class Vector, tensor::Dtype kType>
void widen_row(const std::byte* from, std::int64_t n, float* to) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Vector::template widen<kType>(from + i * kBytes<kType>).store(to + i);
  }
  if (i < n) widen_n<Vector, kType>(from + i * kBytes<kType>, n - i).store_n(to + i, n - i);
}

template <class Vector, tensor::Dtype kType>
void narrow_row(const float* from, std::int64_t n, std::byte* to) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Vector::load(from + i).template narrow<kType>(to + i * kBytes<kType>);
  }
  if (i < n) {
    alignas(64) Array<std::byte, kLanes * kBytes<kType>> block;
    Vector::load_n(from + i, n - i, 0.0F).template narrow<kType>(block);
    __builtin_memcpy(to + i * kBytes<kType>, block,
                     static_cast<std::size_t>((n - i) * kBytes<kType>));
  }
}

template <class Vector>
void widen(tensor::Dtype dtype, const std::byte* from, std::int64_t n, float* to) {
  switch (dtype) {
    case tensor::Dtype::kF16:
      return widen_row<Vector, tensor::Dtype::kF16>(from, n, to);
    case tensor::Dtype::kBf16:
      return widen_row<Vector, tensor::Dtype::kBf16>(from, n, to);
    default:
      return widen_row<Vector, tensor::Dtype::kF32>(from, n, to);
  }
}

template <class Vector>
void narrow(tensor::Dtype dtype, const float* from, std::int64_t n, std::byte* to) {
  switch (dtype) {
    case tensor::Dtype::kF16:
      return narrow_row<Vector, tensor::Dtype::kF16>(from, n, to);
    case tensor::Dtype::kBf16:
      return narrow_row<Vector, tensor::Dtype::kBf16>(from, n, to);
    default:
      return narrow_row<Vector, tensor::Dtype::kF32>(from, n, to);
  }
}

template <class Vector>
void pack_activations(tensor::Dtype dtype, const float* x, std::int64_t n, float* out) {
  const std::int64_t full = n / kLanes * kLanes;
  const bool is_bf16 = dtype == tensor::Dtype::kBf16;
  alignas(64) float last[kLanes];
  if (full < n) Vector::load_n(x + full, n - full, 0.0F).store(last);
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const float* block = i < full ? x + i : last;
    (is_bf16 ? Vector::load_even_odd(block) : Vector::load(block)).store(out + i);
  }
}

}  // namespace kvant::kernels::simd
