#include "kvant/engine/sampler.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace kvant::engine {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Sampler make(const SamplerOptions& options, std::int64_t n_ids) {
  auto sampler = Sampler::create(options, n_ids);
  EXPECT_TRUE(sampler);
  return std::move(*sampler);
}

std::map<TokenId, int> draw_many(Sampler& sampler, std::span<const float> logits, int n) {
  std::map<TokenId, int> counts;
  for (int i = 0; i < n; ++i) {
    const auto id = sampler.sample(logits, {});
    EXPECT_TRUE(id);
    ++counts[*id];
  }
  return counts;
}

TEST(Argmax, TakesTheLowestIndexAmongEqualsAndNeverANaN) {
  EXPECT_EQ(argmax(std::array{1.0F, 3.0F, 3.0F}), 1);
  EXPECT_EQ(argmax(std::array{kNaN, -2.0F, kNaN}), 1);
  EXPECT_EQ(argmax(std::array{kNaN, -kInf}), -1);
  EXPECT_EQ(argmax({}), -1);
}

TEST(Sampler, GreedyIsTheArgmax) {
  Sampler sampler = make({}, 4);
  EXPECT_EQ(*sampler.sample(std::array{0.0F, 2.0F, 2.0F, kNaN}, {}), 1);
}

TEST(Sampler, NeverChoosesAnIdThatPadsTheVocabulary) {
  const std::array logits = {0.0F, 1.0F, 50.0F};
  Sampler greedy = make({}, 2);
  EXPECT_EQ(*greedy.sample(logits, {}), 1);
  Sampler random = make({.temperature = 1.0}, 2);
  EXPECT_EQ(draw_many(random, logits, 200).count(2), 0U);
}

TEST(Sampler, RefusesLogitsWithoutANumber) {
  for (const double temperature : {0.0, 1.0}) {
    Sampler sampler = make({.temperature = temperature}, 3);
    const auto chosen = sampler.sample(std::array{kNaN, -kInf, kNaN}, {});
    ASSERT_FALSE(chosen);
    EXPECT_EQ(chosen.error().code, ErrorCode::kNoLogits);
  }
}

TEST(Sampler, AnInfiniteLogitTakesAll) {
  Sampler sampler = make({.temperature = 1.0}, 3);
  EXPECT_EQ(draw_many(sampler, std::array{5.0F, kInf, 4.0F}, 50).at(1), 50);
}

TEST(Sampler, DrawsFromTheSoftmaxAtItsTemperature) {
  const std::array logits = {1.0F, 2.0F, 0.0F, -1.0F};
  constexpr int kDraws = 40000;
  constexpr double kTemperature = 0.7;
  Sampler sampler = make({.temperature = kTemperature, .seed = 3}, 4);
  const auto counts = draw_many(sampler, logits, kDraws);
  double total = 0.0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) / kTemperature);
  double chi_square = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double expected =
        kDraws * std::exp(static_cast<double>(logits[i]) / kTemperature) / total;
    const double difference = counts.at(static_cast<TokenId>(i)) - expected;
    chi_square += difference * difference / expected;
  }
  EXPECT_LT(chi_square, 16.27);  // 3 degrees of freedom, one in a thousand
}

TEST(Sampler, ATinyTemperatureIsAsGoodAsGreedy) {
  for (const double temperature : {1e-300, 1e-310, 5e-324}) {
    Sampler sampler = make({.temperature = temperature}, 4);
    EXPECT_EQ(draw_many(sampler, std::array{1.0F, 2.0F, 3.0F, 2.5F}, 20).at(2), 20);
  }
}

TEST(Sampler, TopKKeepsTheKMostLikelyAndTheLowerIdAmongEquals) {
  Sampler sampler = make({.temperature = 10.0, .top_k = 2}, 4);
  const auto counts = draw_many(sampler, std::array{1.0F, 3.0F, 1.0F, 1.0F}, 500);
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_TRUE(counts.contains(0));
  EXPECT_TRUE(counts.contains(1));
}

TEST(Sampler, TopPKeepsTheSmallestHeadThatReachesP) {
  // Probabilities 0.6, 0.25, 0.1, 0.05.
  const std::array logits = {std::log(0.6F), std::log(0.25F), std::log(0.1F), std::log(0.05F)};
  Sampler one = make({.temperature = 1.0, .top_p = 0.5}, 4);
  EXPECT_EQ(draw_many(one, logits, 300).size(), 1U);
  Sampler two = make({.temperature = 1.0, .top_p = 0.8}, 4);
  EXPECT_EQ(draw_many(two, logits, 300).size(), 2U);
  Sampler three = make({.temperature = 1.0, .top_p = 0.9}, 4);
  EXPECT_EQ(draw_many(three, logits, 300).size(), 3U);
}

TEST(Sampler, MinPDropsWhatIsFarLessLikelyThanTheBest) {
  const std::array logits = {std::log(0.6F), std::log(0.25F), std::log(0.1F), std::log(0.05F)};
  Sampler sampler = make({.temperature = 1.0, .min_p = 0.3}, 4);
  EXPECT_EQ(draw_many(sampler, logits, 300).size(), 2U);
}

TEST(Sampler, RepetitionPenaltyLooksAtTheWindowOnly) {
  const std::array logits = {2.0F, 1.9F, -1.0F};
  const std::array<TokenId, 3> history = {0, 2, 2};
  Sampler near = make({.repetition_penalty = 2.0, .penalty_window = 3}, 3);
  EXPECT_EQ(*near.sample(logits, history), 1);
  Sampler far = make({.repetition_penalty = 2.0, .penalty_window = 2}, 3);
  EXPECT_EQ(*far.sample(logits, history), 0);
  EXPECT_EQ(*near.sample(logits, {}), 0) << "marks of the last call must be gone";
}

TEST(Sampler, RepetitionPenaltyMakesNegativeLogitsLessLikely) {
  Sampler sampler = make({.repetition_penalty = 2.0}, 2);
  EXPECT_EQ(*sampler.sample(std::array{-1.0F, -1.5F}, std::array<TokenId, 1>{0}), 1);
}

TEST(Sampler, TheSameSeedGivesTheSameTokens) {
  const std::array logits = {0.1F, 0.2F, 0.3F, 0.4F, 0.5F};
  const SamplerOptions options{.temperature = 1.0, .seed = 77};
  Sampler a = make(options, 5);
  Sampler b = make(options, 5);
  std::vector<TokenId> first;
  for (int i = 0; i < 50; ++i) {
    first.push_back(*a.sample(logits, {}));
    EXPECT_EQ(first.back(), *b.sample(logits, {}));
  }
  a.reset();
  for (const TokenId id : first) EXPECT_EQ(*a.sample(logits, {}), id);
}

TEST(Sampler, RefusesOptionsOutOfRangeByName) {
  const std::pair<SamplerOptions, const char*> cases[] = {
      {{.temperature = -0.1}, "temperature"},
      {{.temperature = std::nan("")}, "temperature"},
      {{.top_k = -1}, "top-k"},
      {{.top_p = 0.0}, "top-p"},
      {{.top_p = 1.1}, "top-p"},
      {{.min_p = -0.5}, "min-p"},
      {{.repetition_penalty = 0.0}, "repetition penalty"},
      {{.penalty_window = -1}, "penalty window"},
  };
  for (const auto& [options, name] : cases) {
    const auto sampler = Sampler::create(options, 4);
    ASSERT_FALSE(sampler) << name;
    EXPECT_NE(describe(sampler.error()).find(name), std::string::npos);
  }
}

}  // namespace
}  // namespace kvant::engine
