#include <cmath>

#include "kvant/kernels/ref/kernels.h"

namespace kvant::kernels::ref {
namespace {

void convolve_channel(const ShortConvArgs& args, std::int64_t channel) {
  const std::int64_t n = args.n_channels;
  const std::int64_t history = args.conv_width - 1;
  for (std::int64_t t = 0; t < args.n_rows; ++t) {
    float* row = args.bcx + t * 3 * n + channel;
    row[0] = row[0] * row[2 * n];
  }
  // u of the span's row t; rows before the span come from the state.
  const auto input_at = [&](std::int64_t t) {
    return t < 0 ? args.state[(t + history) * n + channel] : args.bcx[t * 3 * n + channel];
  };
  for (std::int64_t t = 0; t < args.n_rows; ++t) {
    float sum = args.bias != nullptr ? args.bias[channel] : 0.0F;
    for (std::int64_t k = 0; k < args.conv_width; ++k) {
      sum = std::fma(args.weight[k * n + channel], input_at(t - history + k), sum);
    }
    args.out[t * n + channel] = args.bcx[(t * 3 + 1) * n + channel] * sum;
  }
  // Ascending, so that a state row is read before it is overwritten.
  for (std::int64_t i = 0; i < history; ++i) {
    args.state[i * n + channel] = input_at(args.n_rows - history + i);
  }
}

}  // namespace

void short_conv(const ShortConvArgs& args, Range channels) {
  for (std::int64_t c = channels.begin; c < channels.end; ++c) convolve_channel(args, c);
}

}  // namespace kvant::kernels::ref
