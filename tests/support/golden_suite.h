// The main proof, for a list of golden files: an independent implementation's values by every route
// to a position, and the same bits by all of them. A program that includes this instantiates
// GoldenFile with its cases.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "kvant/engine/verify.h"

namespace kvant::engine {

struct Case {
  std::string golden;
  std::string model;
  codec::Kind kind;
  int n_threads;
};

class GoldenFile : public testing::TestWithParam<Case> {};

inline std::string root(const std::string& path) {
  return std::string(KVANT_SOURCE_DIR) + "/" + path;
}

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

inline std::string case_name(const testing::TestParamInfo<Case>& test) {
  return std::string(test.param.kind == codec::Kind::kF32 ? "F32" : "F16") + "With" +
         std::to_string(test.param.n_threads) + "Threads";
}

}  // namespace kvant::engine
