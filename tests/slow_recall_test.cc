// Facts of a story at four distances: as many answers right as the reference implementation gets.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kvant/engine/eval.h"

namespace kvant::engine {
namespace {

TEST(Recall, TheBundledModelAnswersAsOftenAsTheReference) {
  const std::string root = std::string(KVANT_SOURCE_DIR);
  const auto model = model::load_model(root + "/models/tinyworld-lfm2");
  ASSERT_TRUE(model) << describe(model.error());
  const auto tokenizer =
      model::Tokenizer::open(root + "/models/tinyworld-lfm2", (*model)->config.vocab_size);
  ASSERT_TRUE(tokenizer) << describe(tokenizer.error());
  const auto cases = read_recall(root + "/tests/golden/recall.jsonl");
  ASSERT_TRUE(cases) << describe(cases.error());
  const EvalSetup setup{.model = *model, .tokenizer = &*tokenizer, .machine = *create_machine(2)};
  const auto groups = eval_recall(setup, *cases);
  ASSERT_TRUE(groups) << describe(groups.error());

  const std::vector<std::int64_t> exact = {24, 23, 24, 17};
  ASSERT_EQ(groups->size(), exact.size());
  std::size_t i = 0;
  for (const auto& [people, group] : *groups) {
    SCOPED_TRACE(people);
    EXPECT_EQ(group.n_cases, 24);
    EXPECT_LE(std::abs(group.n_exact - exact[i]), 1);
    EXPECT_LT(group.nll_sum / static_cast<double>(group.answer_tokens), i < 3 ? 0.05 : 0.5);
    ++i;
  }
}

}  // namespace
}  // namespace kvant::engine
