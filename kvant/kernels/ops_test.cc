#include "kvant/kernels/ops.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "kvant/kernels/numerics_cases.h"
#include "kvant/kernels/rope_frequencies.h"
#include "tests/support/target_test.h"

namespace kvant::kernels {
namespace {

using tensor::Dtype;

std::size_t size_of(std::int64_t n) { return static_cast<std::size_t>(n); }

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// A pool, the table under test and scratch of exactly the floats asked for, full of NaNs.
class Machine {
 public:
  Machine(const KernelTable& table, int n_threads, std::int64_t scratch_floats)
      : table_(table),
        pool_(std::move(ThreadPool::create(n_threads)).value()),
        scratch_(size_of(scratch_floats), std::numeric_limits<float>::quiet_NaN()) {}

  Executor exec() { return {.table = &table_, .pool = pool_.get(), .scratch = scratch_}; }

 private:
  const KernelTable& table_;
  std::unique_ptr<ThreadPool> pool_;
  std::vector<float> scratch_;
};

class Ops : public test::TargetTest {};

constexpr std::int64_t kWidth = 75;

// One set of weights of each type, applied to the same rows.
struct Projected {
  explicit Projected(std::int64_t n_rows)
      : out{std::vector<float>(size_of(n_rows * 33)), std::vector<float>(size_of(n_rows * 40)),
            std::vector<float>(size_of(n_rows * 2))} {}
  std::vector<float> out[3];
};

Projected project(const KernelTable& table, int n_threads, const ActivationRows& x) {
  constexpr Dtype kTypes[] = {Dtype::kF32, Dtype::kBf16, Dtype::kF16};
  constexpr std::int64_t kColumns[] = {33, 40, 2};
  const std::vector<float> bias = generated_numbers(20, 40);
  Projected result(x.n_rows);
  std::vector<std::byte> weights[3];
  std::vector<Projection> projections;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::vector<float> numbers = generated_numbers(21 + i, kColumns[i] * kWidth);
    weights[i].resize(numbers.size() * 4);
    table.narrow(kTypes[i], numbers.data(), kColumns[i] * kWidth, weights[i].data());
    projections.push_back({.weight = {.data = weights[i].data(),
                                      .dtype = kTypes[i],
                                      .n_columns = kColumns[i],
                                      .width = kWidth,
                                      .bias = i == 1 ? bias.data() : nullptr},
                           .out = result.out[i].data(),
                           .out_stride = kColumns[i]});
  }
  Machine machine(table, n_threads, linear_scratch_floats({x.n_rows, kWidth, n_threads}));
  linear(machine.exec(), x, projections);
  return result;
}

TEST_P(Ops, ARowProjectedAloneHasTheBitsItHasAmongOthers) {
  const std::vector<float> x = generated_numbers(19, 23 * kWidth);
  const Projected together = project(table(), 2, {x.data(), 23, kWidth});
  for (std::int64_t begin = 0; begin < 23; ++begin) {
    for (const std::int64_t n : {1, 2, 5, 8}) {
      if (begin + n > 23) continue;
      const Projected part = project(table(), 1, {x.data() + begin * kWidth, n, kWidth});
      for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t width = together.out[i].size() / 23;
        const std::span<const float> all(together.out[i]);
        EXPECT_TRUE(same_bits(part.out[i], all.subspan(size_of(begin) * width, size_of(n) * width)))
            << begin << " " << n << " " << i;
      }
    }
  }
}

TEST_P(Ops, ProjectionsDoNotDependOnTheThreadCount) {
  const std::vector<float> x = generated_numbers(18, 9 * kWidth);
  const Projected one = project(table(), 1, {x.data(), 9, kWidth});
  for (const int n_threads : {2, 3}) {
    const Projected more = project(table(), n_threads, {x.data(), 9, kWidth});
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(one.out[i], more.out[i]));
  }
}

// 150 rows of keys and values in pages of 32, and the queries of all of them.
class Sequence {
 public:
  static constexpr std::int64_t kRows = 150;
  static constexpr std::int64_t kPage = 32;
  static constexpr std::int64_t kHeads = 6;
  static constexpr std::int64_t kKvHeads = 2;
  static constexpr std::int64_t kDim = 20;

  explicit Sequence(Dtype dtype) : dtype_(dtype), row_bytes_(kDim * tensor::bytes_of(dtype)) {
    q_ = generated_numbers(30, kRows * kHeads * kDim);
    for (auto* side : {&keys_, &values_}) {
      const std::int64_t n = kPages * kPage * kKvHeads * kDim;
      const std::vector<float> numbers = generated_numbers(side == &keys_ ? 31 : 32, n);
      side->resize(size_of(n * tensor::bytes_of(dtype)));
      table_of(Target::kRef).narrow(dtype, numbers.data(), n, side->data());
    }
  }

  // Fills the rows from `begin` on, of keys and values, with NaNs.
  void spoil_from(std::int64_t begin) {
    const std::vector<float> nans(size_of(kDim), std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t row = begin; row < kPages * kPage; ++row) {
      for (std::int64_t head = 0; head < kKvHeads; ++head) {
        const std::int64_t at =
            ((row / kPage * kKvHeads + head) * kPage + row % kPage) * row_bytes_;
        table_of(Target::kRef).narrow(dtype_, nans.data(), kDim, keys_.data() + at);
        table_of(Target::kRef).narrow(dtype_, nans.data(), kDim, values_.data() + at);
      }
    }
  }

  // Attention of rows [begin, end) when n_written rows are there; one span of a batch of two.
  std::vector<float> attend(const KernelTable& table, int n_threads, Range rows,
                            std::int64_t n_written) {
    const std::vector<tensor::Extent> keys = extents(keys_, n_written);
    const std::vector<tensor::Extent> values = extents(values_, n_written);
    const std::int64_t n = rows.end - rows.begin;
    std::vector<float> out(size_of(n * kHeads * kDim));
    std::vector<float> other_out(size_of(kHeads * kDim));
    const QueryVariant queries{.q = q_.data() + rows.begin * kHeads * kDim};
    AttentionArgs span{.queries = {&queries, 1},
                       .keys = view(keys),
                       .values = view(values),
                       .n_rows = n,
                       .n_heads = kHeads,
                       .rows_before = rows.begin,
                       .scale = 0.03F,
                       .out = out.data()};
    AttentionArgs other = span;
    other.n_rows = 1;
    other.out = other_out.data();
    const AttentionArgs batch[] = {other, span};
    const AttentionScratchShape shape{
        .rows = {.head_dim = kDim, .value_dim = kDim, .max_extent_rows = kPage},
        .n_threads = n_threads};
    Machine machine(table, n_threads, attention_scratch_floats(shape));
    attention(machine.exec(), batch);
    return out;
  }

 private:
  static constexpr std::int64_t kPages = (kRows + kPage - 1) / kPage;

  std::vector<tensor::Extent> extents(std::vector<std::byte>& side, std::int64_t n) const {
    std::vector<tensor::Extent> out;
    for (std::int64_t first = 0; first < n; first += kPage) {
      out.push_back({.page = side.data() + first * kKvHeads * row_bytes_,
                     .n_rows = static_cast<std::int32_t>(std::min(kPage, n - first))});
    }
    return out;
  }

  tensor::PagedRows view(std::span<const tensor::Extent> extents) const {
    return {.extents = extents,
            .head_stride_bytes = kPage * row_bytes_,
            .row_bytes = row_bytes_,
            .n_heads = kKvHeads,
            .row_width = kDim,
            .dtype = dtype_};
  }

  Dtype dtype_;
  std::int64_t row_bytes_;
  std::vector<float> q_;
  std::vector<std::byte> keys_;
  std::vector<std::byte> values_;
};

TEST_P(Ops, AttentionGivesTheSameBitsInAnyChunkingAndThreadCount) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    Sequence sequence(dtype);
    const std::int64_t n = Sequence::kRows;
    const std::vector<float> whole = sequence.attend(table(), 1, {0, n}, n);
    EXPECT_TRUE(same_bits(whole, sequence.attend(table(), 3, {0, n}, n)));
    for (const std::int64_t chunk : {1, 7, 31, 32, 33, 128}) {
      std::vector<float> chunked;
      for (std::int64_t begin = 0; begin < n; begin += chunk) {
        const std::int64_t end = std::min(n, begin + chunk);
        const std::vector<float> part = sequence.attend(table(), 2, {begin, end}, end);
        chunked.insert(chunked.end(), part.begin(), part.end());
      }
      EXPECT_TRUE(same_bits(whole, chunked)) << tensor::name_of(dtype) << " " << chunk;
    }
  }
}

TEST_P(Ops, RowsAfterAQueryChangeNothing) {
  for (const std::int64_t row : {0, 15, 16, 30, 31, 32, 100}) {
    Sequence sequence(Dtype::kF16);
    const Range one{row, row + 1};
    const std::vector<float> before = sequence.attend(table(), 1, one, Sequence::kRows);
    sequence.spoil_from(row + 1);
    EXPECT_TRUE(same_bits(before, sequence.attend(table(), 1, one, Sequence::kRows))) << row;
    EXPECT_TRUE(same_bits(before, sequence.attend(table(), 1, one, row + 1))) << row;
    EXPECT_FALSE(std::isnan(before[0]));
  }
}

TEST_P(Ops, AQueryThatSeesNothingGivesZeros) {
  Sequence sequence(Dtype::kF32);
  const std::vector<float> out = sequence.attend(table(), 1, {3, 5}, 0);
  EXPECT_TRUE(same_bits(out, std::vector<float>(out.size(), 0.0F)));
}

// 40 rows through a convolution of four taps, in chunks; returns outputs and the final state.
std::vector<float> convolve(const KernelTable& table, int n_threads, std::int64_t chunk) {
  constexpr std::int64_t kRows = 40;
  constexpr std::int64_t kChannels = 150;
  const std::vector<float> weight = generated_numbers(40, 4 * kChannels);
  std::vector<float> bcx = generated_numbers(41, kRows * 3 * kChannels);
  std::vector<float> state(size_of(3 * kChannels), 0.0F);
  std::vector<float> out(size_of(kRows * kChannels));
  Machine machine(table, n_threads, 0);
  for (std::int64_t begin = 0; begin < kRows; begin += chunk) {
    const ShortConvArgs span{.bcx = bcx.data() + begin * 3 * kChannels,
                             .weight = weight.data(),
                             .state = state.data(),
                             .out = out.data() + begin * kChannels,
                             .n_rows = std::min(chunk, kRows - begin),
                             .n_channels = kChannels,
                             .conv_width = 4};
    short_conv(machine.exec(), {&span, 1});
  }
  out.insert(out.end(), state.begin(), state.end());
  return out;
}

TEST_P(Ops, ShortConvolutionGivesTheSameBitsInAnyChunkingAndThreadCount) {
  const std::vector<float> whole = convolve(table(), 1, 40);
  for (const std::int64_t chunk : {1, 2, 3, 4, 7, 39, 40}) {
    for (const int n_threads : {1, 3}) {
      EXPECT_TRUE(same_bits(whole, convolve(table(), n_threads, chunk))) << chunk;
    }
  }
}

TEST_P(Ops, RowDriversDoWhatTheKernelsDo) {
  constexpr std::int64_t kRows = 300;
  constexpr std::int64_t kNumbers = 130;
  const std::vector<float> x = generated_numbers(50, kRows * kNumbers);
  const std::vector<float> y = generated_numbers(51, kRows * kNumbers);
  std::vector<float> got(x.size());
  std::vector<float> wanted(x.size());
  for (const int n_threads : {1, 3}) {
    Machine machine(table(), n_threads, 0);
    rms_norm_rows(machine.exec(), {x.data(), y.data(), 1e-5F, kRows, kNumbers, got.data()});
    for (std::int64_t r = 0; r < kRows; ++r) {
      table().rms_norm(
          {x.data() + r * kNumbers, y.data(), 1e-5F, kNumbers, wanted.data() + r * kNumbers});
    }
    EXPECT_TRUE(same_bits(got, wanted));

    silu_mul(machine.exec(), {x.data(), y.data(), kRows * kNumbers, got.data()});
    table().silu_mul(x.data(), y.data(), kRows * kNumbers, wanted.data());
    EXPECT_TRUE(same_bits(got, wanted));

    got = y;
    wanted = y;
    add(machine.exec(), {x.data(), kRows * kNumbers, got.data()});
    table().add(x.data(), kRows * kNumbers, wanted.data());
    EXPECT_TRUE(same_bits(got, wanted));

    // Two heads of 64 in rows of 130: the last two numbers stay.
    got = x;
    wanted = x;
    rope_rows(machine.exec(), {.x = got.data(),
                               .row_stride = kNumbers,
                               .n_rows = kRows,
                               .n_heads = 2,
                               .head_dim = 64,
                               .cos = y.data(),
                               .sin = y.data() + kRows * 32});
    for (std::int64_t r = 0; r < kRows; ++r) {
      table().rope({.x = wanted.data() + r * kNumbers,
                    .n_heads = 2,
                    .head_dim = 64,
                    .cos = y.data() + r * 32,
                    .sin = y.data() + (kRows + r) * 32});
    }
    EXPECT_TRUE(same_bits(got, wanted));
    EXPECT_EQ(got[129], x[129]);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Ops,
                         ::testing::ValuesIn(all_targets().begin(), all_targets().end()),
                         [](const auto& param) { return std::string(name_of(param.param)); });

TEST(RopeFrequencies, AnglesAgreeWithTheFormulaUpToAMillionPositions) {
  const std::vector<float> factors = {1.0F, 2.0F, 8.0F, 32.0F};
  for (const bool with_factors : {false, true}) {
    const RopeParameters parameters{
        .theta = 1e6,
        .head_dim = 8,
        .factors = with_factors ? std::span<const float>(factors) : std::span<const float>()};
    const auto frequencies = RopeFrequencies::create(parameters);
    ASSERT_TRUE(frequencies);
    ASSERT_EQ(frequencies->width(), 4);
    for (const std::int64_t position : {0, 1, 17, 4095, 131072, 1000000}) {
      float cos[4];
      float sin[4];
      frequencies->angles(Position(position), cos, sin);
      for (int i = 0; i < 4; ++i) {
        long double angle = position * std::pow(1e6L, -2.0L * i / 8.0L);
        if (with_factors) angle /= static_cast<long double>(factors[static_cast<std::size_t>(i)]);
        // An angle of a million in binary64 is off by 1e-10 at most.
        EXPECT_NEAR(cos[i], static_cast<double>(std::cos(angle)), 1e-7);
        EXPECT_NEAR(sin[i], static_cast<double>(std::sin(angle)), 1e-7);
      }
    }
  }
}

TEST(RopeFrequencies, RefusesParametersWithoutAMeaning) {
  const std::vector<float> factors = {1.0F, 0.0F};
  const auto refused = [](const RopeParameters& parameters) {
    const auto made = RopeFrequencies::create(parameters);
    return !made && made.error().code == ErrorCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused({.theta = 1e4, .head_dim = 0}));
  EXPECT_TRUE(refused({.theta = 1e4, .head_dim = -2}));
  EXPECT_TRUE(refused({.theta = 1e4, .head_dim = 7}));
  EXPECT_TRUE(refused({.theta = 0.0, .head_dim = 8}));
  EXPECT_TRUE(refused({.theta = std::nan(""), .head_dim = 8}));
  EXPECT_TRUE(refused({.theta = 1e4, .head_dim = 8, .factors = factors}));
  EXPECT_TRUE(refused({.theta = 1e4, .head_dim = 4, .factors = factors}));
}

TEST(FloatingPointMode, IsCheckedForRounding) {
  EXPECT_TRUE(check_floating_point_mode());
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  const Status upward = check_floating_point_mode();
  ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
  ASSERT_FALSE(upward);
  EXPECT_EQ(upward.error().code, ErrorCode::kUnsupported);
}

#if defined(__x86_64__)
TEST(FloatingPointMode, IsCheckedForFlushedSubnormals) {
  const unsigned before = __builtin_ia32_stmxcsr();
  for (const unsigned flag : {0x8000U, 0x0040U}) {  // flush to zero, denormals are zero
    __builtin_ia32_ldmxcsr(before | flag);
    const Status status = check_floating_point_mode();
    __builtin_ia32_ldmxcsr(before);
    EXPECT_FALSE(status) << flag;
  }
}
#endif

}  // namespace
}  // namespace kvant::kernels
