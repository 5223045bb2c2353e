// A real model through the state engine's ways back and forth: drafts that are refused, growth into
// another pool. Whatever the way, the bits are those of a run that only ever saw the tokens kept.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvant/base/prng.h"
#include "kvant/engine/runner.h"
#include "kvant/model/loader.h"
#include "kvant/state/plan.h"
#include "tests/support/tiny_model.h"

namespace kvant::engine {
namespace {

class LastLogits final : public model::PassObserver {
 public:
  void on_logits(std::size_t, std::size_t, std::span<const float> row) override {
    logits.assign(row.begin(), row.end());
  }
  std::vector<float> logits{};
};

// The small golden model with a sequence of its own pool.
class Runs {
 public:
  Runs(int n_threads, codec::Kind kind)
      : kind_(kind),
        model_(test::tiny_model()),
        runner_(Runner::create(model_->network, create_machine(n_threads).value(),
                               {.max_rows = Rows(200), .n_threads = n_threads})
                    .value()) {}

  state::Sequence sequence(std::int64_t context, std::int64_t max_rollback = 0) {
    const auto layout = model::state_layout(model_->config, kind_, kind_).value();
    const auto plan =
        state::make_plan(layout, {.context = Tokens(context), .max_rollback = Tokens(max_rollback)})
            .value();
    auto pool = state::PagePool::create(tensor::host_device(), plan).value();
    return state::Sequence::create(std::move(pool), Tokens(context)).value();
  }

  std::vector<float> step(state::Sequence& sequence, std::span<const TokenId> tokens) {
    LastLogits last;
    const Status done = runner_.step({.sequence = &sequence, .tokens = tokens}, last);
    EXPECT_TRUE(done) << describe(done.error());
    return last.logits;
  }

  std::vector<TokenId> random_tokens(std::int64_t n) {
    std::vector<TokenId> tokens(static_cast<std::size_t>(n));
    for (TokenId& id : tokens) {
      id = static_cast<TokenId>(random_.next() %
                                static_cast<std::uint64_t>(model_->config.vocab_size));
    }
    return tokens;
  }

 private:
  codec::Kind kind_;
  std::shared_ptr<const model::LoadedModel> model_;
  Runner runner_;
  Xoshiro256 random_{7};
};

TEST(Rollback, ARejectedDraftLeavesTheBitsOfARunThatNeverSawIt) {
  for (const int n_threads : {1, 2}) {
    Runs runs(n_threads, codec::Kind::kF16);
    state::Sequence drafting = runs.sequence(500, 8);
    state::Sequence plain = runs.sequence(500);
    const auto prompt = runs.random_tokens(120);
    ASSERT_EQ(runs.step(drafting, prompt), runs.step(plain, prompt));
    for (std::int64_t n = 1; n <= 12; ++n) {
      for (const std::int64_t refused : {std::int64_t{0}, n / 2, n}) {
        if (refused > 8) continue;
        const auto draft = runs.random_tokens(n);
        runs.step(drafting, draft);
        const Status back = drafting.rollback(Tokens(refused));
        ASSERT_TRUE(back) << describe(back.error());
        if (refused < n) {
          runs.step(plain, std::span(draft).first(static_cast<std::size_t>(n - refused)));
        }
        const auto next = runs.random_tokens(1);
        ASSERT_EQ(runs.step(drafting, next), runs.step(plain, next)) << n << ' ' << refused;
      }
    }
  }
}

TEST(Growth, IntoALargerPoolInTheMiddleOfARunChangesNoBit) {
  Runs runs(2, codec::Kind::kF32);
  state::Sequence plain = runs.sequence(400);
  const auto prompt = runs.random_tokens(127);
  const auto more = runs.random_tokens(130);
  const auto expected_prompt = runs.step(plain, prompt);
  const auto expected = runs.step(plain, more);

  state::Sequence small = runs.sequence(127);
  ASSERT_EQ(runs.step(small, prompt), expected_prompt);
  const state::Snapshot before = small.snapshot().value();
  state::Sequence large = runs.sequence(400);
  ASSERT_TRUE(large.migrate_from(small));
  EXPECT_EQ(runs.step(large, more), expected);
  ASSERT_TRUE(large.restore(before));
  EXPECT_EQ(runs.step(large, more), expected);
}

}  // namespace
}  // namespace kvant::engine
