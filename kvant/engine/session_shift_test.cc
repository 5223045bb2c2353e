// Sessions whose context is full.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "kvant/engine/golden.h"
#include "kvant/engine/session.h"
#include "kvant/kernels/dispatch.h"
#include "kvant/kernels/rope_frequencies.h"
#include "kvant/state/turn_keys.h"
#include "tests/support/tiny_model.h"

namespace kvant::engine {
namespace {

using test::kTinyModelDir;
using test::tiny_model;

struct Shape {
  std::int64_t context = 64;
  std::int64_t keep = 0;
  OnFull on_full = OnFull::kShift;
  std::int64_t chunk = 64;
  int n_threads = 1;
  codec::Kind keys = codec::Kind::kF16;
  codec::Kind values = codec::Kind::kF16;
  std::int64_t n_snapshots = 0;
  std::optional<Tokens> start = {};
};

NamedResult<std::unique_ptr<Session>> create(const Shape& shape) {
  return Session::create(tiny_model(), *create_machine(shape.n_threads),
                         {.context = Tokens(shape.context),
                          .start = shape.start,
                          .keys = shape.keys,
                          .values = shape.values,
                          .chunk = Tokens(shape.chunk),
                          .n_snapshots = shape.n_snapshots,
                          .policy = {.on_full = shape.on_full, .keep = Tokens(shape.keep)}});
}

std::unique_ptr<Session> make(const Shape& shape) {
  auto session = create(shape);
  EXPECT_TRUE(session) << describe(session.error());
  return std::move(*session);
}

std::vector<TokenId> prompt(std::int64_t n) {
  const std::vector<TokenId> tokens = read_golden(kTinyModelDir)->tokens;
  std::vector<TokenId> out;
  while (static_cast<std::int64_t>(out.size()) < n)
    out.push_back(tokens[out.size() % tokens.size()]);
  return out;
}

std::vector<float> logits_of(const Session& session) {
  return {session.last_logits().begin(), session.last_logits().end()};
}

std::vector<TokenId> tokens_of(const Session& session) {
  return {session.tokens().begin(), session.tokens().end()};
}

struct Generated {
  std::vector<TokenId> tokens;
  FinishReason reason = FinishReason::kStop;
};

// Draws at a temperature, so that texts do not run in circles.
Generated generate(Session& session, std::int64_t n) {
  Generated out;
  Sampler sampler = *Sampler::create({.temperature = 1.5, .seed = 7}, 320);
  const auto reason = session.generate({.max_tokens = n}, sampler, [&](TokenId id) {
    out.tokens.push_back(id);
    return true;
  });
  EXPECT_TRUE(reason) << describe(reason.error());
  if (reason) out.reason = *reason;
  return out;
}

// The rule of context_policy.h on a plain list.
void drop(std::vector<TokenId>& tokens, std::int64_t keep, std::int64_t lacking) {
  const auto size = static_cast<std::int64_t>(tokens.size());
  const std::int64_t n = std::max(lacking, (size - keep) / 2);
  tokens.erase(tokens.begin() + keep, tokens.begin() + keep + n);
}

TEST(SessionShift, GoesOnGeneratingInAFullContext) {
  auto session = make({.context = 64, .keep = 8});
  ASSERT_TRUE(session->append(prompt(40)));
  EXPECT_EQ(session->lineage(), state::Lineage::kCold);
  const Generated out = generate(*session, 300);
  EXPECT_EQ(out.reason, FinishReason::kLength);
  EXPECT_EQ(out.tokens.size(), 300U);
  EXPECT_EQ(session->lineage(), state::Lineage::kDerived);
  EXPECT_EQ(session->figures().n_shifts, 10) << "40 + 299 - 64 positions, 28 at a time";
  EXPECT_EQ(session->figures().n_rebuilds, 0);
}

TEST(SessionShift, TokensAreThoseThatTheRuleLeavesThroughTwentyShifts) {
  for (const std::int64_t keep : {0, 1, 127, 128, 129}) {
    auto session = make({.context = 300, .keep = keep});
    std::vector<TokenId> expected = prompt(200);
    ASSERT_TRUE(session->append(expected));
    std::optional<TokenId> pending;
    Sampler sampler = *Sampler::create({.temperature = 1.5, .seed = 7}, 320);
    while (session->figures().n_shifts < 20) {
      const auto reason = session->generate({.max_tokens = 50}, sampler, [&](TokenId id) {
        if (pending && expected.size() == 300) drop(expected, keep, 1);
        if (pending) expected.push_back(*pending);
        pending = id;
        return true;
      });
      ASSERT_TRUE(reason) << describe(reason.error());
      ASSERT_EQ(tokens_of(*session), expected) << keep;
      ASSERT_EQ(session->position(), Position(static_cast<std::int64_t>(expected.size())));
      ASSERT_EQ(session->pending(), pending);
    }
    EXPECT_EQ(session->figures().n_rebuilds, 0) << keep;
    EXPECT_TRUE(std::ranges::equal(std::span(expected).first(static_cast<std::size_t>(keep)),
                                   prompt(keep)));
  }
}

TEST(SessionShift, ThePlanHasMemoryForEveryShift) {
  // Holes at all places of pages; keys and values in one group of pages and in two.
  for (const std::int64_t context : {2, 64, 127, 128, 129, 200, 256, 300, 513}) {
    for (const std::int64_t keep : {0, 1, 50, 127, 128, 129, 200, 511}) {
      if (keep >= context) continue;
      for (const codec::Kind values : {codec::Kind::kF16, codec::Kind::kF32}) {
        auto session = make({.context = context, .keep = keep, .values = values});
        ASSERT_TRUE(session->append(prompt(context)));
        for (std::int64_t i = 0; i < 12; ++i) {
          // Shifts of many lengths, with positions left over between them.
          const std::int64_t room = context - keep - (session->pending() ? 1 : 0);
          if (room > 0) {
            ASSERT_TRUE(session->append(prompt(std::min(room, 1 + i * 13))));
          }
          generate(*session, i * i);
        }
        EXPECT_GE(session->figures().n_shifts, 4) << context << " " << keep;
        EXPECT_EQ(session->figures().n_rebuilds, 0) << context << " " << keep;
        EXPECT_LE(session->allocated_bytes(), session->memory_plan().total());
      }
    }
  }
}

TEST(SessionShift, ChunksThreadsAndTheWayTokensComeInLeaveNoTrace) {
  const std::vector<TokenId> first = prompt(150);
  const std::vector<TokenId> second = prompt(120);
  std::vector<float> expected;
  std::vector<TokenId> reply;
  for (const Shape& shape : {Shape{.context = 200, .keep = 5, .chunk = 512},
                             {.context = 200, .keep = 5, .chunk = 1},
                             {.context = 200, .keep = 5, .chunk = 37, .n_threads = 2},
                             {.context = 200, .keep = 5, .n_threads = 3}}) {
    auto session = make(shape);
    ASSERT_TRUE(session->append(first));
    ASSERT_TRUE(session->append(second));
    const std::vector<TokenId> out = generate(*session, 250).tokens;
    if (reply.empty()) {
      reply = out;
      expected = logits_of(*session);
    }
    EXPECT_EQ(out, reply) << shape.chunk;
    EXPECT_EQ(logits_of(*session), expected) << shape.chunk;
    EXPECT_GE(session->figures().n_shifts, 3);
  }
  // A reply that comes back as a prompt, token by token.
  auto told = make({.context = 200, .keep = 5});
  ASSERT_TRUE(told->append(first));
  ASSERT_TRUE(told->append(second));
  for (const TokenId id : std::span(reply).first(reply.size() - 1)) {
    ASSERT_TRUE(told->append({&id, 1}));
  }
  EXPECT_EQ(logits_of(*told), expected);
}

TEST(SessionShift, AStateThatGrowsAfterAShiftHasTheBitsOfAWholeOne) {
  std::vector<std::vector<float>> logits;
  for (const std::optional<Tokens> start : {std::optional<Tokens>(), std::optional(Tokens(64))}) {
    auto session = make({.context = 400, .keep = 5, .start = start});
    ASSERT_TRUE(session->append(prompt(60)));
    ASSERT_TRUE(session->append(prompt(390)));  // drops before it grows
    EXPECT_EQ(session->figures().n_shifts, 1);
    EXPECT_EQ(session->lineage(), state::Lineage::kDerived);
    generate(*session, 100);
    logits.push_back(logits_of(*session));
  }
  EXPECT_EQ(logits[0], logits[1]);
}

TEST(SessionShift, APromptDropsOldTokensAndNeverItsOwn) {
  auto session = make({.context = 100, .keep = 10});
  const std::vector<TokenId> old = prompt(100);
  ASSERT_TRUE(session->append(old));
  std::vector<TokenId> expected = old;
  // Two positions lack: half of what may go is dropped. 80 lack: all of these.
  for (const std::int64_t n : {2, 80, 90}) {
    const std::vector<TokenId> next(static_cast<std::size_t>(n), static_cast<TokenId>(n));
    const auto room = 100 - static_cast<std::int64_t>(expected.size());
    if (n > room) drop(expected, 10, n - room);
    expected.insert(expected.end(), next.begin(), next.end());
    ASSERT_TRUE(session->append(next));
    EXPECT_EQ(tokens_of(*session), expected) << n;
    EXPECT_EQ(session->last_logits().size(), 320U);
  }
}

TEST(SessionShift, APromptLongerThanTheRoomBehindKeepChangesNothing) {
  auto session = make({.context = 100, .keep = 10});
  ASSERT_TRUE(session->append(prompt(60)));
  generate(*session, 3);  // leaves one pending
  const std::vector<TokenId> before = tokens_of(*session);
  const std::vector<float> logits = logits_of(*session);
  const auto refused = session->append(prompt(90));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kPromptTooLong);
  EXPECT_EQ(refused.error().error().actual, 91U) << "the pending token comes first";
  EXPECT_EQ(refused.error().error().expected, 90U);
  EXPECT_EQ(tokens_of(*session), before);
  EXPECT_EQ(logits_of(*session), logits);
  EXPECT_EQ(session->lineage(), state::Lineage::kCold);
  EXPECT_EQ(session->figures().n_shifts, 0);
  ASSERT_TRUE(session->append(prompt(89)));
  EXPECT_EQ(session->position(), Position(100));
}

TEST(SessionShift, AFirstPromptMayFillTheWholeContext) {
  auto session = make({.context = 100, .keep = 10});
  EXPECT_EQ(session->append(prompt(101)).error().code(), ErrorCode::kPromptTooLong);
  ASSERT_TRUE(session->append(prompt(100)));
  EXPECT_EQ(session->lineage(), state::Lineage::kCold);
}

TEST(SessionShift, NothingKeptAndEverythingDroppedIsAFreshSession) {
  auto session = make({.context = 100});
  ASSERT_TRUE(session->append(prompt(70)));
  ASSERT_TRUE(session->append(prompt(100)));
  auto fresh = make({.context = 100});
  ASSERT_TRUE(fresh->append(prompt(100)));
  EXPECT_EQ(logits_of(*session), logits_of(*fresh));
  EXPECT_EQ(session->lineage(), state::Lineage::kCold);
  EXPECT_EQ(session->figures().n_shifts, 1);
}

TEST(SessionShift, AContextOfOnePositionGoesOn) {
  auto session = make({.context = 1});
  ASSERT_TRUE(session->append(prompt(1)));
  EXPECT_EQ(generate(*session, 10).tokens.size(), 10U);
  EXPECT_EQ(session->position(), Position(1));
}

TEST(SessionShift, KeepingTheWholeContextIsRefused) {
  for (const std::int64_t keep : {100, 101, -1}) {
    for (const OnFull on_full : {OnFull::kShift, OnFull::kRebuild}) {
      const auto refused = create({.context = 100, .keep = keep, .on_full = on_full});
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(refused.error().error().actual, static_cast<std::uint64_t>(keep));
      EXPECT_EQ(refused.error().error().expected, 100U);
    }
  }
  EXPECT_TRUE(create({.context = 100, .keep = 99}));
}

TEST(SessionShift, ACheckpointFromBeforeShiftsComesBackWithItsBits) {
  auto session = make({.context = 300, .keep = 20, .n_snapshots = 1});
  ASSERT_TRUE(session->append(prompt(290)));
  const auto checkpoint = session->checkpoint();
  ASSERT_TRUE(checkpoint);
  const std::vector<TokenId> before = tokens_of(*session);
  const std::vector<TokenId> reply = generate(*session, 900).tokens;
  const std::vector<float> logits = logits_of(*session);
  EXPECT_GE(session->figures().n_shifts, 6);
  EXPECT_EQ(session->figures().n_rebuilds, 0) << "the plan has pages for the checkpoint and more";
  ASSERT_TRUE(session->restore(*checkpoint));
  EXPECT_EQ(tokens_of(*session), before);
  EXPECT_EQ(session->lineage(), state::Lineage::kCold);
  EXPECT_EQ(generate(*session, 900).tokens, reply);
  EXPECT_EQ(logits_of(*session), logits);
}

TEST(SessionShift, ResetAfterShiftsGivesWhatAFreshSessionGives) {
  auto session = make({.context = 64, .keep = 8});
  ASSERT_TRUE(session->append(prompt(64)));
  generate(*session, 100);
  ASSERT_TRUE(session->reset());
  ASSERT_TRUE(session->append(prompt(50)));
  auto fresh = make({.context = 64, .on_full = OnFull::kError});
  ASSERT_TRUE(fresh->append(prompt(50)));
  EXPECT_EQ(logits_of(*session), logits_of(*fresh));
  EXPECT_EQ(session->lineage(), state::Lineage::kCold);
}

TEST(SessionShift, UntilTheContextIsFullAPolicyChangesNoBit) {
  auto shifting = make({.context = 200, .keep = 8});
  auto plain = make({.context = 200, .on_full = OnFull::kError});
  ASSERT_TRUE(shifting->append(prompt(100)));
  ASSERT_TRUE(plain->append(prompt(100)));
  EXPECT_EQ(generate(*shifting, 90).tokens, generate(*plain, 90).tokens);
  EXPECT_EQ(logits_of(*shifting), logits_of(*plain));
}

TEST(SessionRebuild, LeavesTheStateOfAFreshRunOverWhatStays) {
  auto session = make({.context = 100, .keep = 10, .on_full = OnFull::kRebuild, .chunk = 7});
  ASSERT_TRUE(session->append(prompt(95)));
  const std::vector<TokenId> reply = generate(*session, 60).tokens;
  EXPECT_EQ(reply.size(), 60U);
  EXPECT_EQ(session->lineage(), state::Lineage::kCold);
  EXPECT_EQ(session->figures().n_rebuilds, 2);
  EXPECT_EQ(session->figures().n_shifts, 2);
  auto fresh = make({.context = 100});
  ASSERT_TRUE(fresh->append(session->tokens()));
  EXPECT_EQ(logits_of(*session), logits_of(*fresh));
}

TEST(SessionRebuild, IsNotCutShortByACancel) {
  auto session = make({.context = 100, .keep = 10, .on_full = OnFull::kRebuild, .chunk = 7});
  ASSERT_TRUE(session->append(prompt(100)));
  std::vector<TokenId> expected = prompt(100);
  drop(expected, 10, 30);
  const std::vector<TokenId> next = prompt(30);
  // The first chunk of the prompt follows the rebuild.
  const auto cancelled = session->append(next, [&](Tokens, Tokens) { session->cancel(); });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code(), ErrorCode::kCancelled);
  expected.insert(expected.end(), next.begin(), next.begin() + 7);
  EXPECT_EQ(tokens_of(*session), expected);
}

// Logits of one sequence, step by step.
class StepLogits final : public model::PassObserver {
 public:
  void on_logits(std::size_t, std::size_t, std::span<const float> logits) override {
    logits_.assign(logits.begin(), logits.end());
  }
  const std::vector<float>& logits() const { return logits_; }

 private:
  std::vector<float> logits_;
};

// A sequence of the tiny model that lost positions [keep, keep + n), with scratch for a few deltas.
struct ShiftedRun {
  ShiftedRun(codec::Kind kind, std::int64_t max_query_variants)
      : model(tiny_model()),
        plan(*plan_memory(model->config, {.context = Tokens(400),
                                          .keys = kind,
                                          .values = kind,
                                          .policy = {.on_full = OnFull::kShift}})) {
    plan.workspace_shape.max_query_variants = max_query_variants;
    runner.emplace(*Runner::create(model->network, *create_machine(1), plan.workspace_shape));
    sequence.emplace(*state::Sequence::create(
        *state::PagePool::create(tensor::host_device(), plan.state), Tokens(400)));
  }

  Status step(std::span<const TokenId> tokens) {
    return runner->step({.sequence = &*sequence, .tokens = tokens}, observer);
  }

  std::shared_ptr<const model::LoadedModel> model;
  MemoryPlan plan;
  std::optional<Runner> runner;
  std::optional<state::Sequence> sequence;
  StepLogits observer;
};

TEST(ShiftedSequence, TurnedQueriesGiveTheLogitsOfTurnedKeys) {
  const std::vector<TokenId> tokens = prompt(240);
  for (const std::int64_t keep : {0, 1, 64, 127, 128, 129}) {
    for (const std::int64_t n : {1, 50, 100}) {
      ShiftedRun queries(codec::Kind::kF32, 2);
      ShiftedRun keys(codec::Kind::kF32, 1);
      const auto rope = *kernels::RopeFrequencies::create(
          {.theta = keys.model->config.rope_theta, .head_dim = keys.model->config.head_dim});
      for (ShiftedRun* run : {&queries, &keys}) {
        ASSERT_TRUE(run->step(tokens));
        ASSERT_TRUE(run->sequence->shift({.keep = Position(keep), .n = Tokens(n)}));
      }
      ASSERT_TRUE(
          state::turn_stored_keys(*keys.sequence, kernels::best_table(), {.frequencies = &rope}));
      EXPECT_EQ(keys.sequence->position_runs().size(), 1U);
      const std::vector<TokenId> next = prompt(20);
      ASSERT_TRUE(queries.step(next));
      ASSERT_TRUE(keys.step(next));
      for (std::size_t i = 0; i < queries.observer.logits().size(); ++i) {
        ASSERT_NEAR(queries.observer.logits()[i], keys.observer.logits()[i], 1e-3) << keep;
      }
    }
  }
}

TEST(ShiftedSequence, MoreDeltasThanTheScratchHasRoomForChangeNothing) {
  ShiftedRun run(codec::Kind::kF32, 2);
  ASSERT_TRUE(run.step(prompt(240)));
  ASSERT_TRUE(run.sequence->shift({.keep = Position(10), .n = Tokens(5)}));
  ASSERT_TRUE(run.step(prompt(3)));
  ASSERT_TRUE(run.sequence->shift({.keep = Position(100), .n = Tokens(5)}));
  ASSERT_EQ(run.sequence->position_runs().size(), 3U);
  const std::vector<TokenId> next = prompt(3);
  const model::BatchSpan span{.sequence = &*run.sequence, .tokens = next};
  ASSERT_TRUE(run.sequence->prepare(Tokens(3)));
  const auto workspace = *run.model->network->create_workspace(run.plan.workspace_shape);
  const Machine machine = *create_machine(1);
  const Status refused = run.model->network->forward({&span, 1}, *machine.kernels, *machine.pool,
                                                     *workspace, run.observer);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().actual, 3U);
  EXPECT_EQ(refused.error().expected, 2U);
}

TEST(ShiftedSequence, OthersOfItsBatchKeepTheirBits) {
  // One shifted, one not, in one batch and alone.
  const auto model = tiny_model();
  MemoryPlan plan = *plan_memory(
      model->config,
      {.context = Tokens(200), .n_sequences = 2, .policy = {.on_full = OnFull::kShift}});
  const auto logits = [&](bool together) {
    auto pool = *state::PagePool::create(tensor::host_device(), plan.state);
    state::Sequence a = *state::Sequence::create(pool, Tokens(200));
    state::Sequence b = *state::Sequence::create(pool, Tokens(200));
    Runner runner = *Runner::create(model->network, *create_machine(2), plan.workspace_shape);
    std::array<StepLogits, 2> got;
    const std::vector<TokenId> long_one = prompt(150);
    const std::vector<TokenId> short_one = prompt(33);
    EXPECT_TRUE(runner.step({.sequence = &a, .tokens = long_one}, got[0]));
    EXPECT_TRUE(runner.step({.sequence = &b, .tokens = short_one}, got[1]));
    EXPECT_TRUE(a.shift({.keep = Position(3), .n = Tokens(60)}));
    const std::vector<TokenId> next = prompt(17);
    if (together) {
      class Both final : public model::PassObserver {
       public:
        explicit Both(std::array<StepLogits, 2>& to) : to_(to) {}
        void on_logits(std::size_t span, std::size_t row, std::span<const float> logits) override {
          to_[span].on_logits(span, row, logits);
        }

       private:
        std::array<StepLogits, 2>& to_;
      } both(got);
      const std::array lanes{model::BatchSpan{.sequence = &a, .tokens = next},
                             model::BatchSpan{.sequence = &b, .tokens = next}};
      std::array<Status, 2> outcomes;
      runner.step(lanes, outcomes, both);
      EXPECT_TRUE(outcomes[0] && outcomes[1]);
    } else {
      EXPECT_TRUE(runner.step({.sequence = &a, .tokens = next}, got[0]));
      EXPECT_TRUE(runner.step({.sequence = &b, .tokens = next}, got[1]));
    }
    std::vector<float> out = got[0].logits();
    out.insert(out.end(), got[1].logits().begin(), got[1].logits().end());
    return out;
  };
  EXPECT_EQ(logits(true), logits(false));
}

}  // namespace
}  // namespace kvant::engine
