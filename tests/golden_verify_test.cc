// Golden files of the small random model, and what verify must refuse.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/support/golden_suite.h"

namespace kvant::engine {
namespace {

constexpr const char* kTiny = "tests/golden/lfm2";

INSTANTIATE_TEST_SUITE_P(Tiny, GoldenFile,
                         testing::Values(Case{kTiny, kTiny, codec::Kind::kF32, 1},
                                         Case{kTiny, kTiny, codec::Kind::kF32, 2},
                                         Case{kTiny, kTiny, codec::Kind::kF16, 2}),
                         case_name);

NamedResult<VerifyReport> verify_tiny(const Golden& golden, const VerifyOptions& options) {
  return verify(golden, *model::load_model(root(kTiny)), *create_machine(1), options);
}

TEST(Verify, RefusesAGoldenFileOfAnotherModelBeforeItRuns) {
  const auto good = *read_golden(root(kTiny));
  for (const TokenId bad : {TokenId{-1}, TokenId{320}, TokenId{1 << 30}}) {
    auto golden = good;
    golden.tokens[3] = bad;
    EXPECT_EQ(verify_tiny(golden, {}).error().code(), ErrorCode::kTokenOutOfRange);
    golden = good;
    golden.greedy[0] = bad;
    EXPECT_EQ(verify_tiny(golden, {}).error().code(), ErrorCode::kTokenOutOfRange);
  }
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    auto golden = good;
    golden.nll[5] = bad;
    EXPECT_EQ(verify_tiny(golden, {}).error().code(), ErrorCode::kBadValue);
    golden = good;
    golden.logits.values[7] = bad;
    EXPECT_EQ(verify_tiny(golden, {}).error().code(), ErrorCode::kBadValue);
  }
}

TEST(Verify, AWrongValueFailsWithEveryKindOfRows) {
  auto golden = *read_golden(root(kTiny));
  golden.logits.values[7] += 5.0F;
  for (const auto kind : {codec::Kind::kF32, codec::Kind::kF16, codec::Kind::kBf16}) {
    const auto report =
        verify_tiny(golden, {.keys = kind, .values = kind, .routes = {Route::kOneshot}});
    ASSERT_TRUE(report) << describe(report.error());
    EXPECT_FALSE(report->passed());
  }
}

}  // namespace
}  // namespace kvant::engine
