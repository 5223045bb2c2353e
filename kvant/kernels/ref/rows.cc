#include <cmath>
#include <limits>

#include "kvant/kernels/math.h"
#include "kvant/kernels/ref/kernels.h"
#include "kvant/kernels/ref/lanes.h"

namespace kvant::kernels::ref {

void rms_norm(const RmsNormArgs& args) {
  Lanes lanes{};
  for (std::int64_t i = 0; i < args.n; ++i) {
    float& sum = lanes[static_cast<std::size_t>(i % kLanes)];
    sum = std::fma(args.x[i], args.x[i], sum);
  }
  const float mean = tree(lanes) / static_cast<float>(args.n);
  const float scale = 1.0F / std::sqrt(mean + args.eps);
  for (std::int64_t i = 0; i < args.n; ++i) args.out[i] = (args.x[i] * scale) * args.weight[i];
}

void rope(const RopeArgs& args) {
  const std::int64_t half = args.head_dim / 2;
  const bool neox = args.pairing == RopePairing::kNeox;
  for (std::int64_t h = 0; h < args.n_heads; ++h) {
    float* head = args.x + h * args.head_dim;
    for (std::int64_t i = 0; i < half; ++i) {
      float& first = head[neox ? i : 2 * i];
      float& second = head[neox ? i + half : 2 * i + 1];
      const float a = first;
      const float b = second;
      first = std::fma(a, args.cos[i], -(b * args.sin[i]));
      second = std::fma(b, args.cos[i], a * args.sin[i]);
    }
  }
}

void silu_mul(const float* gate, const float* up, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = (gate[i] / (1.0F + kernels::exp32(-gate[i]))) * up[i];
  }
}

void add(const float* x, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = y[i] + x[i];
}

void softmax(const float* x, std::int64_t n, float* out) {
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  float max = kLeast;
  bool any_nan = false;
  for (std::int64_t i = 0; i < n; ++i) {
    any_nan = any_nan || std::isnan(x[i]);
    if (x[i] > max) max = x[i];
  }
  if (max == kLeast && !any_nan) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = 0.0F;
    return;
  }
  Lanes lanes{};
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = kernels::exp32(x[i] - max);
    float& sum = lanes[static_cast<std::size_t>(i % kLanes)];
    sum = sum + out[i];
  }
  const float sum = tree(lanes);
  for (std::int64_t i = 0; i < n; ++i) out[i] = out[i] / sum;
}

void exp32(const float* x, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = kernels::exp32(x[i]);
}

}  // namespace kvant::kernels::ref
