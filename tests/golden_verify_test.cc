// The main proof: an independent implementation's values by every route to a position, and the same
// bits by all of them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "kvant/engine/verify.h"

namespace kvant::engine {
namespace {

struct Case {
  std::string golden;
  std::string model;
  codec::Kind kind;
  int n_threads;
};

class GoldenFile : public testing::TestWithParam<Case> {};

std::string root(const std::string& path) { return std::string(KVANT_SOURCE_DIR) + "/" + path; }

TEST_P(GoldenFile, EveryRouteAgreesWithTheReferenceAndWithEveryOtherToTheBit) {
  const Case& test = GetParam();
  const auto golden = read_golden(root(test.golden));
  ASSERT_TRUE(golden) << describe(golden.error());
  const auto model = model::load_model(root(test.model));
  ASSERT_TRUE(model) << describe(model.error());
  const auto machine = create_machine(test.n_threads);
  ASSERT_TRUE(machine) << describe(machine.error());
  const VerifyOptions options{.keys = test.kind, .values = test.kind};
  const auto report = verify(*golden, *model, *machine, options);
  ASSERT_TRUE(report) << describe(report.error());
  for (const RouteReport& route : report->routes) {
    SCOPED_TRACE(route.name);
    EXPECT_EQ(route.first_other_bit, -1);
    EXPECT_LE(route.max_logit_error, report->logit_tolerance);
    EXPECT_LE(route.max_hidden_error, report->logit_tolerance);
    EXPECT_LE(route.max_nll_error, 2 * report->logit_tolerance);
    EXPECT_EQ(route.argmax_misses, 0);
    EXPECT_EQ(route.greedy_misses, 0);
  }
  EXPECT_TRUE(report->passed());
  EXPECT_GE(report->routes.size(), 18U);
}

constexpr const char* kTiny = "tests/golden/lfm2";
constexpr const char* kTinyworld = "tests/golden/tinyworld-lfm2";
constexpr const char* kTinyworldModel = "models/tinyworld-lfm2";

INSTANTIATE_TEST_SUITE_P(Models, GoldenFile,
                         testing::Values(Case{kTiny, kTiny, codec::Kind::kF32, 1},
                                         Case{kTiny, kTiny, codec::Kind::kF32, 2},
                                         Case{kTiny, kTiny, codec::Kind::kF16, 2},
                                         Case{kTinyworld, kTinyworldModel, codec::Kind::kF32, 1},
                                         Case{kTinyworld, kTinyworldModel, codec::Kind::kF32, 2},
                                         Case{kTinyworld, kTinyworldModel, codec::Kind::kF16, 2}),
                         [](const auto& test) {
                           const std::string name =
                               test.param.golden == kTiny ? "Tiny" : "Tinyworld";
                           return name + (test.param.kind == codec::Kind::kF32 ? "F32" : "F16") +
                                  "With" + std::to_string(test.param.n_threads) + "Threads";
                         });

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
