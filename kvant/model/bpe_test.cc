#include "kvant/model/bpe.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <vector>

namespace kvant::model {
namespace {

// The definition: merge the pair of lowest rank, the leftmost among equals, until none merges.
std::vector<TokenId> merged_by_definition(const MergeTable& merges, std::vector<TokenId> symbols) {
  for (;;) {
    const Merge* best = nullptr;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const Merge* merge = merges.find(symbols[i], symbols[i + 1]);
      if (merge == nullptr || (best != nullptr && merge->rank >= best->rank)) continue;
      best = merge;
      at = i;
    }
    if (best == nullptr) return symbols;
    symbols[at] = best->result;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

std::vector<TokenId> merged(const MergeTable& merges, std::vector<TokenId> symbols) {
  MergeScratch scratch;
  merge_word(merges, scratch, symbols);
  return symbols;
}

// 0 0 -> 1, 1 1 -> 2, ... : what a run of one letter meets in real vocabularies.
MergeTable doubling_table(TokenId n_levels) {
  MergeTable merges;
  for (TokenId level = 0; level < n_levels; ++level) {
    EXPECT_TRUE(merges.insert({.left = level,
                               .right = level,
                               .result = level + 1,
                               .rank = static_cast<std::uint32_t>(level)}));
  }
  return merges;
}

TEST(MergeTable, FindsWhatWasInsertedAndRefusesAPairTwice) {
  MergeTable merges;
  EXPECT_EQ(merges.find(1, 2), nullptr);
  for (TokenId i = 0; i < 1000; ++i) {
    ASSERT_TRUE(merges.insert({.left = i, .right = i * 7, .result = i + 1, .rank = 5}));
  }
  EXPECT_EQ(merges.size(), 1000U);
  for (TokenId i = 0; i < 1000; ++i) {
    ASSERT_NE(merges.find(i, i * 7), nullptr);
    EXPECT_EQ(merges.find(i, i * 7)->result, i + 1);
    EXPECT_EQ(merges.find(i * 7 + 1, i), nullptr);
  }
  EXPECT_FALSE(merges.insert({.left = 3, .right = 21, .result = 9, .rank = 0}));
  EXPECT_EQ(merges.find(3, 21)->result, 4);
}

TEST(MergeWord, EmptyWordsAndSingleSymbolsStayAsTheyAre) {
  const MergeTable merges = doubling_table(3);
  EXPECT_EQ(merged(merges, {}), std::vector<TokenId>{});
  EXPECT_EQ(merged(merges, {0}), std::vector<TokenId>{0});
  EXPECT_EQ(merged(MergeTable(), {0, 0}), (std::vector<TokenId>{0, 0}));
}

TEST(MergeWord, AmongEqualRanksTheLeftmostPairGoesFirst) {
  const MergeTable merges = doubling_table(1);
  EXPECT_EQ(merged(merges, {0, 0, 0}), (std::vector<TokenId>{1, 0}));
  EXPECT_EQ(merged(merges, {0, 0, 0, 0, 0}), (std::vector<TokenId>{1, 1, 0}));
}

TEST(MergeWord, AMergeMayMakeAPairOfLowerRank) {
  MergeTable merges;
  ASSERT_TRUE(merges.insert({.left = 1, .right = 2, .result = 3, .rank = 5}));
  ASSERT_TRUE(merges.insert({.left = 3, .right = 1, .result = 4, .rank = 0}));
  // After the first pair, "3 1" outranks the second "1 2".
  EXPECT_EQ(merged(merges, {1, 2, 1, 2}), (std::vector<TokenId>{4, 2}));
}

RC_GTEST_PROP(MergeWord, EqualsTheDefinition, ()) {
  constexpr TokenId kIds = 8;
  MergeTable merges;
  const auto n_merges = *rc::gen::inRange(0, 24);
  for (int i = 0; i < n_merges; ++i) {
    // Ranks repeat now and then, which files cannot do but the order must still be total.
    merges.insert({.left = *rc::gen::inRange(0, kIds),
                   .right = *rc::gen::inRange(0, kIds),
                   .result = *rc::gen::inRange(0, kIds),
                   .rank = static_cast<std::uint32_t>(i)});
  }
  const auto word = *rc::gen::container<std::vector<TokenId>>(rc::gen::inRange(0, kIds));
  RC_ASSERT(merged(merges, word) == merged_by_definition(merges, word));
}

TEST(MergeWord, AMegabyteOfOneLetterEntersAtMostThreePairsAByteIntoTheHeap) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  const MergeTable merges = doubling_table(30);
  std::vector<TokenId> word(kBytes, 0);
  MergeScratch scratch;
  EXPECT_LE(merge_word(merges, scratch, word), 3 * kBytes);
  EXPECT_EQ(word, std::vector<TokenId>{20}) << "2^20 letters are one symbol of level 20";
}

TEST(MergeWord, WordsThatOverlapEverywhereKeepTheBound) {
  constexpr std::size_t kBytes = 100000;
  MergeTable merges;
  for (TokenId left = 0; left < 3; ++left) {
    for (TokenId right = 0; right < 3; ++right) {
      ASSERT_TRUE(merges.insert({.left = left,
                                 .right = right,
                                 .result = (left + right) % 3,
                                 .rank = static_cast<std::uint32_t>(left * 3 + right)}));
    }
  }
  std::vector<TokenId> word(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) word[i] = static_cast<TokenId>(i * i % 3);
  MergeScratch scratch;
  EXPECT_LE(merge_word(merges, scratch, word), 3 * kBytes);
  EXPECT_EQ(word.size(), 1U);
}

}  // namespace
}  // namespace kvant::model
