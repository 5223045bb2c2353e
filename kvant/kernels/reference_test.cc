// The scalar reference against plain formulae in binary64: right, not merely equal to itself.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kvant/base/prng.h"
#include "kvant/kernels/dispatch.h"
#include "kvant/tensor/half.h"

namespace kvant::kernels {
namespace {

using tensor::Dtype;

std::vector<float> numbers(std::uint64_t seed, std::size_t n) {
  Xoshiro256 random(seed);
  std::vector<float> out(n);
  for (float& number : out) number = random.next_signed_float();
  return out;
}

const KernelTable& ref() { return table_of(Target::kRef); }

std::vector<std::byte> narrowed(Dtype dtype, const std::vector<float>& from) {
  std::vector<std::byte> out(from.size() * static_cast<std::size_t>(tensor::bytes_of(dtype)));
  ref().narrow(dtype, from.data(), static_cast<std::int64_t>(from.size()), out.data());
  return out;
}

std::vector<float> widened(Dtype dtype, const std::vector<std::byte>& from) {
  std::vector<float> out(from.size() / static_cast<std::size_t>(tensor::bytes_of(dtype)));
  ref().widen(dtype, from.data(), static_cast<std::int64_t>(out.size()), out.data());
  return out;
}

TEST(Reference, MatmulIsTheSumOfProducts) {
  constexpr std::size_t kWidth = 83;
  constexpr std::size_t kColumns = 5;
  constexpr std::size_t kRows = 3;
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    const std::vector<std::byte> weight = narrowed(dtype, numbers(1, kWidth * kColumns));
    const std::vector<float> w = widened(dtype, weight);
    const std::vector<float> x = numbers(2, kWidth * kRows);
    const std::vector<float> bias = numbers(3, kColumns);
    std::vector<float> packed(96 * kRows);
    for (std::size_t r = 0; r < kRows; ++r) {
      ref().pack_activations(dtype, x.data() + r * kWidth, kWidth, packed.data() + r * 96);
    }
    std::vector<float> out(kRows * kColumns);
    ref().matmul({.weight = weight.data(),
                  .dtype = dtype,
                  .width = kWidth,
                  .x = packed.data(),
                  .x_stride = 96,
                  .n_rows = kRows,
                  .bias = bias.data(),
                  .out = out.data(),
                  .out_stride = kColumns},
                 {0, kColumns});
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t c = 0; c < kColumns; ++c) {
        double wanted = bias[c];
        for (std::size_t k = 0; k < kWidth; ++k) {
          wanted += static_cast<double>(w[c * kWidth + k]) * x[r * kWidth + k];
        }
        EXPECT_NEAR(out[r * kColumns + c], wanted, 2e-6) << tensor::name_of(dtype);
      }
    }
  }
}

TEST(Reference, RmsNormDividesByTheRootOfTheMeanSquare) {
  const std::vector<float> x = numbers(4, 77);
  const std::vector<float> w = numbers(5, 77);
  std::vector<float> out(77);
  ref().rms_norm({.x = x.data(), .weight = w.data(), .eps = 1e-3F, .n = 77, .out = out.data()});
  double squares = 0.0;
  for (const float v : x) squares += static_cast<double>(v) * v;
  const double scale = 1.0 / std::sqrt(squares / 77.0 + 1e-3);
  for (std::size_t i = 0; i < 77; ++i) EXPECT_NEAR(out[i], x[i] * scale * w[i], 1e-6);
}

TEST(Reference, SiluMulGatesByTheLogisticFunction) {
  std::vector<float> gate = numbers(6, 50);
  for (float& g : gate) g *= 12.0F;
  const std::vector<float> up = numbers(7, 50);
  std::vector<float> out(50);
  ref().silu_mul(gate.data(), up.data(), 50, out.data());
  for (std::size_t i = 0; i < 50; ++i) {
    const double g = gate[i];
    EXPECT_NEAR(out[i], g / (1.0 + std::exp(-g)) * up[i], 2e-6);
  }
}

TEST(Reference, SoftmaxSumsToOneInTheRightProportions) {
  std::vector<float> x = numbers(8, 41);
  for (float& v : x) v = v * 30.0F + 1000.0F;
  std::vector<float> out(41);
  ref().softmax(x.data(), 41, out.data());
  double total = 0.0;
  for (const float v : x) total += std::exp(static_cast<double>(v) - 1000.0);
  double sum = 0.0;
  for (std::size_t i = 0; i < 41; ++i) {
    EXPECT_NEAR(out[i], std::exp(static_cast<double>(x[i]) - 1000.0) / total, 1e-6);
    sum += out[i];
  }
  EXPECT_NEAR(sum, 1.0, 1e-6);
}

TEST(Reference, RopeTurnsPairsAndKeepsTheirLength) {
  constexpr std::size_t kDim = 10;
  for (const RopePairing pairing : {RopePairing::kNeox, RopePairing::kNorm}) {
    const std::vector<float> before = numbers(9, 2 * kDim);
    std::vector<float> x = before;
    std::vector<float> cos(kDim / 2);
    std::vector<float> sin(kDim / 2);
    for (std::size_t i = 0; i < kDim / 2; ++i) {
      cos[i] = static_cast<float>(std::cos(0.3 + static_cast<double>(i)));
      sin[i] = static_cast<float>(std::sin(0.3 + static_cast<double>(i)));
    }
    ref().rope({.x = x.data(),
                .n_heads = 2,
                .head_dim = kDim,
                .cos = cos.data(),
                .sin = sin.data(),
                .pairing = pairing});
    for (std::size_t head = 0; head < 2; ++head) {
      for (std::size_t i = 0; i < kDim / 2; ++i) {
        const bool neox = pairing == RopePairing::kNeox;
        const std::size_t a = head * kDim + (neox ? i : 2 * i);
        const std::size_t b = head * kDim + (neox ? i + kDim / 2 : 2 * i + 1);
        const double angle = 0.3 + static_cast<double>(i);
        EXPECT_NEAR(x[a], before[a] * std::cos(angle) - before[b] * std::sin(angle), 1e-6);
        EXPECT_NEAR(x[b], before[b] * std::cos(angle) + before[a] * std::sin(angle), 1e-6);
      }
    }
  }
}

TEST(Reference, ShortConvolutionIsCausalAndGated) {
  constexpr std::size_t kRows = 6;
  constexpr std::size_t kChannels = 3;
  constexpr std::size_t kTaps = 4;
  const std::vector<float> bcx = numbers(10, kRows * 3 * kChannels);
  const std::vector<float> weight = numbers(11, kTaps * kChannels);
  const std::vector<float> bias = numbers(12, kChannels);
  std::vector<float> work = bcx;
  std::vector<float> state((kTaps - 1) * kChannels, 0.0F);
  std::vector<float> out(kRows * kChannels);
  ref().short_conv({.bcx = work.data(),
                    .weight = weight.data(),
                    .bias = bias.data(),
                    .state = state.data(),
                    .out = out.data(),
                    .n_rows = kRows,
                    .n_channels = kChannels,
                    .conv_width = kTaps},
                   {0, kChannels});
  const auto input = [&](std::size_t t, std::size_t c) {
    return static_cast<double>(bcx[(3 * t) * kChannels + c]) * bcx[(3 * t + 2) * kChannels + c];
  };
  for (std::size_t t = 0; t < kRows; ++t) {
    for (std::size_t c = 0; c < kChannels; ++c) {
      // Tap kTaps - 1 meets the newest input, tap 0 the oldest.
      double sum = bias[c];
      for (std::size_t back = 0; back < kTaps && back <= t; ++back) {
        sum += weight[(kTaps - 1 - back) * kChannels + c] * input(t - back, c);
      }
      EXPECT_NEAR(out[t * kChannels + c], bcx[(3 * t + 1) * kChannels + c] * sum, 1e-6);
    }
  }
  for (std::size_t i = 0; i < kTaps - 1; ++i) {
    for (std::size_t c = 0; c < kChannels; ++c) {
      EXPECT_NEAR(state[i * kChannels + c], input(kRows - (kTaps - 1) + i, c), 1e-6);
    }
  }
}

TEST(Reference, AttentionIsASoftmaxOverAllVisibleRows) {
  constexpr std::size_t kPage = 8;
  constexpr std::size_t kRows = 21;  // of the sequence; the span is its last 4
  constexpr std::size_t kSpan = 4;
  constexpr std::size_t kKeyDim = 5;
  constexpr std::size_t kValueDim = 7;
  constexpr std::size_t kHeads = 2;  // both read the one KV head
  const std::vector<float> keys = numbers(13, 3 * kPage * kKeyDim);
  const std::vector<float> values = numbers(14, 3 * kPage * kValueDim);
  const std::vector<float> q = numbers(15, kSpan * kHeads * kKeyDim);
  std::vector<std::byte> key_bytes = narrowed(Dtype::kF32, keys);
  std::vector<std::byte> value_bytes = narrowed(Dtype::kF32, values);
  std::vector<tensor::Extent> key_extents;
  std::vector<tensor::Extent> value_extents;
  for (std::size_t page = 0; page < 3; ++page) {
    const auto n = static_cast<std::int32_t>(std::min(kPage, kRows - page * kPage));
    key_extents.push_back({.page = key_bytes.data() + page * kPage * kKeyDim * 4, .n_rows = n});
    value_extents.push_back(
        {.page = value_bytes.data() + page * kPage * kValueDim * 4, .n_rows = n});
  }
  std::vector<float> out(kSpan * kHeads * kValueDim);
  const QueryVariant queries{.q = q.data()};
  AttentionArgs args{.queries = {&queries, 1}, .n_rows = kSpan, .n_heads = kHeads};
  args.keys = {.extents = key_extents, .row_bytes = 20, .n_heads = 1, .row_width = 5};
  args.values = {.extents = value_extents, .row_bytes = 28, .n_heads = 1, .row_width = 7};
  args.rows_before = kRows - kSpan;
  args.scale = 3.0F;
  args.out = out.data();
  std::vector<float> scratch(static_cast<std::size_t>(attention_part_floats({5, 7, kPage})));
  ref().attention(args,
                  {.key_extents = key_extents.data(),
                   .value_extents = value_extents.data(),
                   .n_extents = 3,
                   .queries = &queries,
                   .n_queries = 1,
                   .max_extent_rows = kPage,
                   .rows = {0, kSpan}},
                  scratch.data());
  for (std::size_t i = 0; i < kSpan * kHeads; ++i) {
    const std::size_t n_visible = kRows - kSpan + i / kHeads + 1;
    std::vector<double> weighted(kValueDim, 0.0);
    double total = 0.0;
    for (std::size_t j = 0; j < n_visible; ++j) {
      double score = 0.0;
      for (std::size_t k = 0; k < kKeyDim; ++k) {
        score += static_cast<double>(q[i * kKeyDim + k]) * keys[j * kKeyDim + k];
      }
      const double p = std::exp(3.0 * score);
      total += p;
      for (std::size_t d = 0; d < kValueDim; ++d) weighted[d] += p * values[j * kValueDim + d];
    }
    for (std::size_t d = 0; d < kValueDim; ++d) {
      EXPECT_NEAR(out[i * kValueDim + d], weighted[d] / total, 2e-6) << i;
    }
  }
}

}  // namespace
}  // namespace kvant::kernels
