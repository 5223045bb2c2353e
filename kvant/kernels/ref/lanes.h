// Lanes and the tree of docs/numerics.md, in scalar form.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kvant/kernels/kernel_table.h"
#include "kvant/tensor/half.h"

namespace kvant::kernels::ref {

using Lanes = std::array<float, static_cast<std::size_t>(kLanes)>;

// The lane of element k of a row of `dtype`.
constexpr std::int64_t lane_of(tensor::Dtype dtype, std::int64_t k) {
  const std::int64_t in_block = k % kLanes;
  if (dtype != tensor::Dtype::kBf16) return in_block;
  return in_block / 2 + kLanes / 2 * (in_block % 2);
}

inline float tree(Lanes lanes) {
  for (std::size_t s = lanes.size() / 2; s > 0; s /= 2) {
    for (std::size_t l = 0; l < s; ++l) lanes[l] = lanes[l] + lanes[l + s];
  }
  return lanes[0];
}

// Number k of a row of F32, F16 or BF16 at any alignment, widened.
inline float element_at(tensor::Dtype dtype, const std::byte* row, std::int64_t k) {
  if (dtype == tensor::Dtype::kF32) {
    float value = 0.0F;
    std::memcpy(&value, row + k * 4, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, row + k * 2, sizeof(bits));
  return dtype == tensor::Dtype::kF16 ? tensor::f32_from_f16(bits) : tensor::f32_from_bf16(bits);
}

// Dot product of a row of `dtype` and activations in its lane order.
inline float dot(tensor::Dtype dtype, const std::byte* row, const float* x, std::int64_t n) {
  Lanes lanes{};
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t lane = lane_of(dtype, k);
    float& sum = lanes[static_cast<std::size_t>(lane)];
    sum = std::fma(element_at(dtype, row, k), x[k - k % kLanes + lane], sum);
  }
  return tree(lanes);
}

}  // namespace kvant::kernels::ref
