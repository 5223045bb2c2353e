// Every target against the scalar reference, bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "kvant/kernels/dispatch.h"
#include "kvant/kernels/numerics_cases.h"
#include "tests/support/target_test.h"

namespace kvant::kernels {
namespace {

using tensor::Dtype;

constexpr std::int64_t kSizes[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 48, 64, 100, 255, 256, 257};
constexpr Dtype kFloatTypes[] = {Dtype::kF32, Dtype::kF16, Dtype::kBf16};

template <class T>
::testing::AssertionResult same_bits(const std::vector<T>& got, const std::vector<T>& wanted) {
  if (got.size() != wanted.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &wanted[i], sizeof(T)) != 0) {
      return ::testing::AssertionFailure()
             << "number " << i << " is " << got[i] << ", the reference has " << wanted[i];
    }
  }
  return ::testing::AssertionSuccess();
}

class TargetBits : public test::TargetTest {
 protected:
  const KernelTable& ref() const { return table_of(Target::kRef); }

  template <class Case>
  void expect_same(const Case& c) const {
    EXPECT_TRUE(same_bits(run_case(table(), c), run_case(ref(), c))) << describe(c);
  }
};

TEST_P(TargetBits, MatmulEqualsTheScalarLoop) {
  for (const Dtype dtype : kFloatTypes) {
    for (const std::int64_t width : kSizes) {
      for (const std::int64_t n_rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13}) {
        for (const std::int64_t n_columns : {1, 3, 4, 5, 19}) {
          const bool odd = (n_rows + n_columns) % 2 != 0;
          expect_same(MatmulCase{.dtype = dtype,
                                 .n_rows = n_rows,
                                 .n_columns = n_columns,
                                 .width = width,
                                 .alignment = odd ? Alignment::kOdd : Alignment::kAligned});
        }
      }
    }
  }
}

TEST_P(TargetBits, LargeMatmulEqualsTheScalarLoop) {
  for (const Dtype dtype : kFloatTypes) {
    expect_same(MatmulCase{.dtype = dtype, .n_rows = 37, .n_columns = 70, .width = 1030});
    expect_same(MatmulCase{.dtype = dtype, .n_rows = 1, .n_columns = 70, .width = 4608});
  }
}

TEST_P(TargetBits, MatmulOfWidthZeroIsZeroOrTheBias) {
  for (const Dtype dtype : kFloatTypes) {
    expect_same(MatmulCase{.dtype = dtype, .n_rows = 7, .n_columns = 6, .width = 0});
  }
}

TEST_P(TargetBits, RowFunctionsEqualTheScalarLoops) {
  for (const RowKernel kernel : {RowKernel::kRmsNorm, RowKernel::kSiluMul, RowKernel::kAdd,
                                 RowKernel::kSoftmax, RowKernel::kExp32}) {
    if (kernel != RowKernel::kRmsNorm) expect_same(RowCase{.kernel = kernel, .n = 0});
    for (const std::int64_t n : kSizes) expect_same(RowCase{.kernel = kernel, .n = n});
    expect_same(RowCase{.kernel = kernel, .n = 4099});
  }
}

TEST_P(TargetBits, SoftmaxOfOnlyMinusInfinityIsZero) {
  for (const std::int64_t n : {1, 16, 19}) {
    std::vector<float> row(static_cast<std::size_t>(n), -std::numeric_limits<float>::infinity());
    table().softmax(row.data(), n, row.data());
    EXPECT_TRUE(same_bits(row, std::vector<float>(row.size(), 0.0F)));
  }
}

TEST_P(TargetBits, RopeEqualsTheScalarLoop) {
  for (const RopePairing pairing : {RopePairing::kNeox, RopePairing::kNorm}) {
    for (const std::int64_t head_dim : {2, 4, 6, 14, 16, 18, 30, 32, 34, 64, 80, 128, 130}) {
      expect_same(RopeCase{.pairing = pairing, .n_heads = 3, .head_dim = head_dim});
    }
  }
}

TEST_P(TargetBits, ShortConvolutionEqualsTheScalarLoop) {
  for (const std::int64_t n_channels : kSizes) {
    for (const std::int64_t n_rows : {0, 1, 2, 3, 9}) {
      for (const std::int64_t conv_width : {2, 3, 5}) {
        expect_same(
            ShortConvCase{.n_rows = n_rows, .n_channels = n_channels, .conv_width = conv_width});
      }
    }
  }
}

TEST_P(TargetBits, ConversionsEqualTheScalarOnes) {
  for (const Dtype dtype : kFloatTypes) {
    for (const Alignment alignment : {Alignment::kAligned, Alignment::kOdd}) {
      for (const std::int64_t n : {0, 1, 15, 16, 17, 33, 65536}) {
        const ConvertCase c{.dtype = dtype, .n = n, .alignment = alignment};
        EXPECT_TRUE(same_bits(run_widen_case(table(), c), run_widen_case(ref(), c))) << describe(c);
        EXPECT_TRUE(same_bits(run_narrow_case(table(), c), run_narrow_case(ref(), c)))
            << describe(c);
      }
    }
  }
}

TEST_P(TargetBits, AttentionEqualsTheScalarLoopInEveryPairOfTypes) {
  for (const Dtype keys : kFloatTypes) {
    for (const Dtype values : kFloatTypes) {
      for (const std::int64_t head_dim : {1, 7, 16, 17, 64, 100}) {
        expect_same(AttentionCase{.keys = keys,
                                  .values = values,
                                  .n_rows = 5,
                                  .rows_before = 29,
                                  .n_heads = 6,
                                  .n_kv_heads = 2,
                                  .head_dim = head_dim,
                                  .value_dim = 101 - head_dim,
                                  .page_rows = 16});
      }
    }
  }
}

TEST_P(TargetBits, AttentionEqualsTheScalarLoopAtEveryEdgeOfPages) {
  for (const std::int64_t rows_before : {0, 1, 15, 16, 17, 31, 32, 63, 127, 128, 129, 300}) {
    for (const std::int64_t n_rows : {1, 2, 3, 17, 40}) {
      for (const std::int64_t first_row : {0, 5, 21}) {
        expect_same(AttentionCase{.keys = Dtype::kF16,
                                  .values = Dtype::kF32,
                                  .n_rows = n_rows,
                                  .rows_before = rows_before,
                                  .n_heads = 4,
                                  .n_kv_heads = 2,
                                  .head_dim = 20,
                                  .value_dim = 40,
                                  .page_rows = 64,
                                  .first_row = first_row});
      }
    }
  }
}

TEST_P(TargetBits, AttentionOverAShiftedPageTableEqualsTheScalarLoop) {
  for (const Dtype keys : kFloatTypes) {
    for (const std::int64_t rows_before : {0, 1, 10, 15, 16, 17, 60, 200, 400}) {
      for (const std::int64_t n_rows : {1, 3, 40, 90}) {
        expect_same(AttentionCase{.keys = keys,
                                  .values = Dtype::kF16,
                                  .n_rows = n_rows,
                                  .rows_before = rows_before,
                                  .n_heads = 4,
                                  .n_kv_heads = 2,
                                  .head_dim = 20,
                                  .value_dim = 24,
                                  .page_rows = 64,
                                  .table = PageTableCase::kShifted});
      }
    }
  }
}

TEST_P(TargetBits, AttentionOfManyHeadsOnOneKeyHeadEqualsTheScalarLoop) {
  expect_same(AttentionCase{.n_rows = 3,
                            .rows_before = 40,
                            .n_heads = 70,
                            .n_kv_heads = 1,
                            .head_dim = 64,
                            .value_dim = 64});
}

INSTANTIATE_TEST_SUITE_P(Targets, TargetBits,
                         ::testing::ValuesIn(all_targets().begin(), all_targets().end()),
                         [](const auto& param) { return std::string(name_of(param.param)); });

TEST(Dispatch, FindsTablesByNameAndRefusesOthers) {
  ASSERT_TRUE(find_table("ref"));
  EXPECT_EQ(*find_table("ref"), &table_of(Target::kRef));
  EXPECT_EQ(*find_table("auto"), &best_table());
  for (const char* name : {"", "sse", "avx", "REF", "avx5122"}) {
    const auto found = find_table(name);
    ASSERT_FALSE(found) << name;
    EXPECT_EQ(found.error().code, ErrorCode::kInvalidArgument);
  }
  for (const Target target : all_targets()) {
    const auto found = find_table(name_of(target));
    ASSERT_EQ(found.has_value(), is_available(target));
    if (!found) {
      EXPECT_EQ(found.error().code, ErrorCode::kTargetUnavailable);
    } else {
      EXPECT_EQ((*found)->target, target);
      EXPECT_EQ((*found)->name, name_of(target));
    }
  }
}

}  // namespace
}  // namespace kvant::kernels
