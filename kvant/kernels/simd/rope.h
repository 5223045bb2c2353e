// Rotary position embedding over a target's Vector (simd/rows.h says how templates are kept apart).
#pragma once

#include "kvant/kernels/kernel_table.h"

namespace kvant::kernels::simd {

// Pairs (i, i + half) of one head.
template <class Vector>
void rope_neox(float* head, std::int64_t half, const float* cos, const float* sin) {
  const auto turn = [](Vector a, Vector b, Vector c, Vector s, Vector& turned_b) {
    turned_b = fma(b, c, mul(a, s));
    return fms(a, c, mul(b, s));
  };
  Vector second = Vector::zero();
  std::int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    turn(Vector::load(head + i), Vector::load(head + half + i), Vector::load(cos + i),
         Vector::load(sin + i), second)
        .store(head + i);
    second.store(head + half + i);
  }
  if (i < half) {
    const std::int64_t n = half - i;
    turn(Vector::load_n(head + i, n, 0.0F), Vector::load_n(head + half + i, n, 0.0F),
         Vector::load_n(cos + i, n, 0.0F), Vector::load_n(sin + i, n, 0.0F), second)
        .store_n(head + i, n);
    second.store_n(head + half + i, n);
  }
}

// Pairs (2i, 2i + 1) of one head.
template <class Vector>
void rope_norm(float* head, std::int64_t half, const float* cos, const float* sin) {
  constexpr std::int64_t kPairs = kLanes / 2;
  std::int64_t i = 0;
  for (; i + kPairs <= half; i += kPairs) {
    Vector::turn_pairs(Vector::load(head + 2 * i), cos + i, sin + i).store(head + 2 * i);
  }
  for (; i < half; ++i) {
    const float a = head[2 * i];
    const float b = head[2 * i + 1];
    head[2 * i] = __builtin_fmaf(a, cos[i], -(b * sin[i]));
    head[2 * i + 1] = __builtin_fmaf(b, cos[i], a * sin[i]);
  }
}

template <class Vector>
void rope(const RopeArgs& args) {
  const std::int64_t half = args.head_dim / 2;
  for (std::int64_t h = 0; h < args.n_heads; ++h) {
    float* head = args.x + h * args.head_dim;
    if (args.pairing == RopePairing::kNeox) {
      rope_neox<Vector>(head, half, args.cos, args.sin);
    } else {
      rope_norm<Vector>(head, half, args.cos, args.sin);
    }
  }
}

}  // namespace kvant::kernels::simd
