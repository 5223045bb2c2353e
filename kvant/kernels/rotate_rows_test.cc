#include "kvant/kernels/rotate_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kvant/base/prng.h"
#include "kvant/kernels/dispatch.h"
#include "kvant/kernels/rope_frequencies.h"
#include "tests/support/target_test.h"

namespace kvant::kernels {
namespace {

using tensor::Dtype;

constexpr RopePairing kPairings[] = {RopePairing::kNeox, RopePairing::kNorm};

std::size_t size_of(std::int64_t n) { return static_cast<std::size_t>(n); }

std::vector<float> uniform_numbers(std::uint64_t seed, std::int64_t n) {
  Xoshiro256 random(seed);
  std::vector<float> out(size_of(n));
  for (float& number : out) number = random.next_signed_float();
  return out;
}

// Factors from 1 to 8, as long-context models have them.
std::vector<float> some_factors(std::int64_t head_dim) {
  std::vector<float> out;
  out.reserve(size_of(head_dim / 2));
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    out.push_back(1.0F + 7.0F * static_cast<float>(i) / static_cast<float>(head_dim));
  }
  return out;
}

RopeFrequencies frequencies(std::int64_t head_dim, std::span<const float> factors = {}) {
  return *RopeFrequencies::create({.theta = 1e4, .head_dim = head_dim, .factors = factors});
}

// A head turned by an angle a pair in long double, from the definition.
std::vector<float> turned(std::span<const float> head, std::int64_t positions, RopePairing pairing,
                          std::span<const float> factors = {}) {
  const std::size_t half = head.size() / 2;
  std::vector<float> out(head.size());
  for (std::size_t i = 0; i < half; ++i) {
    const auto exponent =
        -2.0L * static_cast<long double>(i) / static_cast<long double>(head.size());
    long double angle = static_cast<long double>(positions) * std::pow(1e4L, exponent);
    if (!factors.empty()) angle /= static_cast<long double>(factors[i]);
    const std::size_t a = pairing == RopePairing::kNeox ? i : 2 * i;
    const std::size_t b = pairing == RopePairing::kNeox ? i + half : 2 * i + 1;
    out[a] = static_cast<float>(head[a] * std::cos(angle) - head[b] * std::sin(angle));
    out[b] = static_cast<float>(head[b] * std::cos(angle) + head[a] * std::sin(angle));
  }
  return out;
}

// One page of rows of two heads, some of them in extents.
class Page {
 public:
  static constexpr std::int64_t kRows = 20;
  static constexpr std::int64_t kHeads = 2;

  Page(const KernelTable& table, Dtype dtype, std::int64_t head_dim)
      : table_(table), dtype_(dtype), head_dim_(head_dim) {
    const std::int64_t n = kHeads * kRows * head_dim;
    bytes_.resize(size_of(n * tensor::bytes_of(dtype)));
    set(uniform_numbers(3, n));
    extents_ = {{.page = bytes_.data(), .first_row = 2, .n_rows = 5},
                {.page = bytes_.data(), .first_row = 11, .n_rows = 9}};
  }

  static bool in_extents(std::int64_t row) { return (row >= 2 && row < 7) || row >= 11; }

  void set(const std::vector<float>& numbers) {
    table_.narrow(dtype_, numbers.data(), static_cast<std::int64_t>(numbers.size()), bytes_.data());
  }
  std::vector<float> numbers() const {
    std::vector<float> out(bytes_.size() / size_of(tensor::bytes_of(dtype_)));
    table_.widen(dtype_, bytes_.data(), static_cast<std::int64_t>(out.size()), out.data());
    return out;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  void rotate(const RopeFrequencies& angles, Tokens by, RopePairing pairing) {
    std::vector<float> cos(size_of(head_dim_ / 2));
    std::vector<float> sin(size_of(head_dim_ / 2));
    angles.angles(by, cos.data(), sin.data());
    const std::int64_t row_bytes = head_dim_ * tensor::bytes_of(dtype_);
    rotate_rows(table_, {.rows = {.extents = extents_,
                                  .head_stride_bytes = kRows * row_bytes,
                                  .row_bytes = row_bytes,
                                  .n_heads = kHeads,
                                  .row_width = static_cast<std::int32_t>(head_dim_),
                                  .dtype = dtype_},
                         .cos = cos.data(),
                         .sin = sin.data(),
                         .pairing = pairing});
  }

  // Calls f(row, its numbers in `all`) for every row of every head.
  template <class F>
  void for_each_row(std::span<const float> all, const F& f) const {
    for (std::int64_t i = 0; i < kHeads * kRows; ++i) {
      f(i % kRows, all.subspan(size_of(i * head_dim_), size_of(head_dim_)));
    }
  }

 private:
  const KernelTable& table_;
  Dtype dtype_;
  std::int64_t head_dim_;
  std::vector<std::byte> bytes_;
  std::vector<tensor::Extent> extents_;
};

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return largest;
}

class RotateRows : public test::TargetTest {};

TEST_P(RotateRows, TurnsEveryHeadDimByTheDefinition) {
  for (const std::int64_t head_dim : {2, 6, 30, 64, 126, 128, 130, 258, 1030}) {
    for (const RopePairing pairing : kPairings) {
      Page page(table(), Dtype::kF32, head_dim);
      const std::vector<float> before = page.numbers();
      page.rotate(frequencies(head_dim), Tokens(-777), pairing);
      const std::vector<float> after = page.numbers();
      std::vector<float> wanted;
      page.for_each_row(before, [&](std::int64_t row, std::span<const float> numbers) {
        const std::vector<float> out = Page::in_extents(row)
                                           ? turned(numbers, -777, pairing)
                                           : std::vector<float>(numbers.begin(), numbers.end());
        wanted.insert(wanted.end(), out.begin(), out.end());
      });
      EXPECT_LT(largest_difference(after, wanted), 1e-6) << head_dim;
    }
  }
}

TEST_P(RotateRows, KeysTurnedBackByAShiftAreTheKeysOfAFreshRun) {
  constexpr std::int64_t kDim = 64;
  const std::vector<float> some = some_factors(kDim);
  for (const RopePairing pairing : kPairings) {
    for (const std::span<const float> factors : {std::span<const float>(), std::span(some)}) {
      for (const std::int64_t position : {1, 127, 128, 2048}) {
        for (const std::int64_t shift : {0L, 1L, 127L, 129L, 2047L}) {
          if (shift > position) continue;
          Page shifted(table(), Dtype::kF32, kDim);
          shifted.rotate(frequencies(kDim, factors), Tokens(position), pairing);
          shifted.rotate(frequencies(kDim, factors), Tokens(-shift), pairing);
          Page fresh(table(), Dtype::kF32, kDim);
          fresh.rotate(frequencies(kDim, factors), Tokens(position - shift), pairing);
          EXPECT_LT(largest_difference(shifted.numbers(), fresh.numbers()), 1e-6)
              << position << " " << shift;
        }
      }
    }
  }
}

TEST_P(RotateRows, FactorsSlowEachPairByItsOwn) {
  constexpr std::int64_t kDim = 16;
  std::vector<float> factors(size_of(kDim / 2), 1.0F);
  factors[2] = 4.0F;
  factors[5] = 1.5F;
  for (const RopePairing pairing : kPairings) {
    Page with(table(), Dtype::kF32, kDim);
    Page without(table(), Dtype::kF32, kDim);
    with.rotate(frequencies(kDim, factors), Tokens(-9), pairing);
    without.rotate(frequencies(kDim), Tokens(-9), pairing);
    const std::vector<float> a = with.numbers();
    const std::vector<float> b = without.numbers();
    for (std::int64_t i = 0; i < kDim; ++i) {
      const std::int64_t pair = pairing == RopePairing::kNeox ? i % (kDim / 2) : i / 2;
      const std::int64_t at = 2 * kDim + i;  // row 2, which is in an extent
      EXPECT_EQ(a[size_of(at)] != b[size_of(at)], pair == 2 || pair == 5) << i;
    }
  }
}

TEST_P(RotateRows, ADifferenceOfZeroKeepsEveryNumber) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    Page page(table(), dtype, 32);
    const std::vector<float> before = page.numbers();
    page.rotate(frequencies(32), Tokens(0), RopePairing::kNeox);
    EXPECT_EQ(page.numbers(), before);
  }
}

TEST_P(RotateRows, RowsOutsideTheExtentsKeepTheirBytes) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    Page page(table(), dtype, 32);
    const std::vector<float> before = page.numbers();
    page.rotate(frequencies(32), Tokens(-5), RopePairing::kNorm);
    const std::vector<float> after = page.numbers();
    std::size_t at = 0;
    page.for_each_row(after, [&](std::int64_t row, std::span<const float> numbers) {
      const bool same = std::memcmp(numbers.data(), before.data() + at, numbers.size_bytes()) == 0;
      EXPECT_EQ(same, !Page::in_extents(row)) << row;
      at += numbers.size();
    });
  }
}

TEST_P(RotateRows, NarrowRowsAreRoundedOnce) {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
    for (const RopePairing pairing : kPairings) {
      Page narrow(table(), dtype, 40);
      Page wide(table(), Dtype::kF32, 40);
      wide.set(narrow.numbers());
      narrow.rotate(frequencies(40), Tokens(-100), pairing);
      wide.rotate(frequencies(40), Tokens(-100), pairing);
      Page rounded(table(), dtype, 40);
      rounded.set(wide.numbers());
      EXPECT_EQ(narrow.bytes(), rounded.bytes()) << tensor::name_of(dtype);
    }
  }
}

TEST_P(RotateRows, TheErrorOfF16GrowsWithTheNumberOfShiftsAndStaysSmall) {
  Page page(table(), Dtype::kF16, 64);
  const std::vector<float> before = page.numbers();
  page.rotate(frequencies(64), Tokens(20 * 13), RopePairing::kNeox);
  for (int i = 0; i < 20; ++i) page.rotate(frequencies(64), Tokens(-13), RopePairing::kNeox);
  EXPECT_LT(largest_difference(page.numbers(), before), 1e-2);
}

TEST_P(RotateRows, EqualsTheReferenceBitForBit) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    for (const RopePairing pairing : kPairings) {
      for (const std::int64_t head_dim : {2, 18, 64, 130}) {
        Page page(table(), dtype, head_dim);
        Page wanted(table_of(Target::kRef), dtype, head_dim);
        page.rotate(frequencies(head_dim), Tokens(-33), pairing);
        wanted.rotate(frequencies(head_dim), Tokens(-33), pairing);
        EXPECT_EQ(page.bytes(), wanted.bytes()) << tensor::name_of(dtype) << " " << head_dim;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RotateRows,
                         ::testing::ValuesIn(all_targets().begin(), all_targets().end()),
                         [](const auto& param) { return std::string(name_of(param.param)); });

}  // namespace
}  // namespace kvant::kernels
