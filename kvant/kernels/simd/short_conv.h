// Gated short convolution, sixteen channels at a time (simd/rows.h says how templates are kept
// apart). Rows are the outer loop: a block of channels of one row lies together in memory.
#pragma once

#include "kvant/kernels/kernel_table.h"

namespace kvant::kernels::simd {

// Sixteen numbers of a row, or the first n of them.
template <class Vector>
struct Channels {
  std::int64_t n = kLanes;

  Vector load(const float* from) const {
    return n == kLanes ? Vector::load(from) : Vector::load_n(from, n, 0.0F);
  }
  void store(Vector v, float* to) const {
    if (n == kLanes) {
      v.store(to);
    } else {
      v.store_n(to, n);
    }
  }
};

// Row t of the inputs u: before the span they lie in the state.
template <class Vector>
const float* conv_input(const ShortConvArgs& args, std::int64_t t) {
  return t < 0 ? args.state + (t + args.conv_width - 1) * args.n_channels
               : args.bcx + t * 3 * args.n_channels;
}

template <class Vector>
void convolve(const ShortConvArgs& args, std::int64_t t, std::int64_t channel,
              Channels<Vector> lanes) {
  const std::int64_t n = args.n_channels;
  float* row = args.bcx + t * 3 * n + channel;
  lanes.store(mul(lanes.load(row), lanes.load(row + 2 * n)), row);
  Vector sum = args.bias != nullptr ? lanes.load(args.bias + channel) : Vector::zero();
  for (std::int64_t k = 0; k < args.conv_width; ++k) {
    const float* u = conv_input<Vector>(args, t - args.conv_width + 1 + k) + channel;
    sum = fma(lanes.load(args.weight + k * n + channel), lanes.load(u), sum);
  }
  lanes.store(mul(lanes.load(row + n), sum), args.out + t * n + channel);
}

template <class Vector>
void short_conv(const ShortConvArgs& args, Range channels) {
  for (std::int64_t t = 0; t < args.n_rows; ++t) {
    std::int64_t c = channels.begin;
    for (; c + kLanes <= channels.end; c += kLanes) convolve(args, t, c, Channels<Vector>{});
    if (c < channels.end) convolve(args, t, c, Channels<Vector>{channels.end - c});
  }
  // Ascending, so that a state row is read before it is overwritten.
  const std::int64_t history = args.conv_width - 1;
  for (std::int64_t i = 0; i < history; ++i) {
    const float* from = conv_input<Vector>(args, args.n_rows - history + i);
    float* to = args.state + i * args.n_channels;
    for (std::int64_t c = channels.begin; c < channels.end; ++c) to[c] = from[c];
  }
}

}  // namespace kvant::kernels::simd
