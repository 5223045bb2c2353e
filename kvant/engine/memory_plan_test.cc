#include "kvant/engine/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace kvant::engine {
namespace {

using ::testing::HasSubstr;

// Two layers of one head of 16 numbers: 128 bytes a position in f16.
model::StateConfig two_layers() {
  return {.model_type = "llama",
          .context_length = 4096,
          .n_layers = 2,
          .shape = state::GqaStateShape{
              .kv_heads = {Heads(1), Heads(1)}, .windows = {}, .head_dim = Elements(16)}};
}

MemoryOptions unlimited() {
  MemoryOptions options;
  options.memory_limit = Bytes(std::numeric_limits<std::int64_t>::max());
  return options;
}

TEST(MemoryPlan, OfAModelThatCanOnlyBePlannedIsItsStateAlone) {
  const MemoryPlan plan = plan_memory(two_layers(), unlimited()).value();
  EXPECT_EQ(plan.state.request.context, Tokens(4096)) << "the model's, being below the default";
  EXPECT_EQ(plan.state.page_bytes, Bytes(4096 * 128));
  EXPECT_EQ(plan.workspace_bytes, Bytes(0));
  EXPECT_EQ(plan.session_bytes, Bytes(0));
  EXPECT_EQ(plan.total(), plan.state.total_bytes());
}

TEST(MemoryPlan, TheLongestContextFitsAndOnePositionMoreDoesNot) {
  MemoryOptions options = unlimited();
  const Bytes budget(100 * 1000);
  const Tokens longest = longest_context(two_layers(), options, budget).value();
  options.context = longest;
  EXPECT_LE(plan_memory(two_layers(), options)->total(), budget);
  options.context = longest + Tokens(1);
  EXPECT_GT(plan_memory(two_layers(), options)->total(), budget);
}

TEST(MemoryPlan, TheMostSequencesFitAndOneMoreDoesNot) {
  MemoryOptions options = unlimited();
  options.context = Tokens(128);
  const Bytes budget(1000 * 1000);
  const std::int64_t most = most_sequences(two_layers(), options, budget).value();
  options.n_sequences = most;
  EXPECT_LE(plan_memory(two_layers(), options)->total(), budget);
  options.n_sequences = most + 1;
  EXPECT_GT(plan_memory(two_layers(), options)->total(), budget);
}

TEST(MemoryPlan, TheSearchForSequencesEndsAtItsMaximum) {
  MemoryOptions options = unlimited();
  options.context = Tokens(1);
  const Bytes everything(std::int64_t{1} << 50);
  EXPECT_EQ(most_sequences(two_layers(), options, everything).value(), kMaxSequences);
}

TEST(MemoryPlan, ABudgetForNothingSaysWhatTheLeastTakes) {
  MemoryOptions options = unlimited();
  const auto context = longest_context(two_layers(), options, Bytes(100));
  EXPECT_EQ(context.error().code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(context.error().error().expected, 100U);
  EXPECT_GT(context.error().error().actual, 128U * 128U);
  EXPECT_THAT(context.error().detail(), HasSubstr("position"));
  options.context = Tokens(4096);
  const auto sequences = most_sequences(two_layers(), options, Bytes(100));
  EXPECT_GE(sequences.error().error().actual, 4096U * 128U);
  EXPECT_THAT(sequences.error().detail(), HasSubstr("sequence"));
}

TEST(MemoryPlan, WhatTheModelRefusesNoBudgetAllows) {
  MemoryOptions options = unlimited();
  options.context = Tokens(4097);
  EXPECT_EQ(most_sequences(two_layers(), options, Bytes(1 << 30)).error().code(),
            ErrorCode::kContextBound);
  model::StateConfig unknown = two_layers();
  unknown.shape = state::DeepSeekV4StateShape{
      .n_layers = Layers(1), .compress_ratios = {8}, .max_positions = Tokens(4096)};
  EXPECT_EQ(longest_context(unknown, unlimited(), Bytes(1 << 30)).error().code(),
            ErrorCode::kCompressionRatio);
}

TEST(MemoryPlan, ALimitIsKept) {
  MemoryOptions options = unlimited();
  options.memory_limit = Bytes(1000);
  EXPECT_EQ(plan_memory(two_layers(), options).error().code(), ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace kvant::engine
