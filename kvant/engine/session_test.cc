#include "kvant/engine/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "kvant/engine/golden.h"
#include "tests/support/tiny_model.h"

namespace kvant::engine {
namespace {

using test::kTinyModelDir;
using test::tiny_model;

Machine machine(int n_threads = 1) { return *create_machine(n_threads); }

std::unique_ptr<Session> make(std::int64_t context, std::int64_t chunk = 64,
                              Machine on = machine()) {
  auto session = Session::create(tiny_model(), std::move(on),
                                 {.context = Tokens(context),
                                  .keys = codec::Kind::kF32,
                                  .values = codec::Kind::kF32,
                                  .chunk = Tokens(chunk),
                                  .n_snapshots = 1});
  EXPECT_TRUE(session) << describe(session.error());
  return std::move(*session);
}

Golden golden() { return *read_golden(kTinyModelDir); }

std::vector<float> logits_of(const Session& session) {
  return {session.last_logits().begin(), session.last_logits().end()};
}

struct Generated {
  std::vector<TokenId> tokens;
  FinishReason reason = FinishReason::kStop;
};

Generated generate(Session& session, std::int64_t n, std::span<const TokenId> stop = {}) {
  Generated out;
  Sampler sampler = *Sampler::create({}, session.model().config.vocab_size);
  const auto reason =
      session.generate({.max_tokens = n, .stop_tokens = stop}, sampler, [&](TokenId id) {
        out.tokens.push_back(id);
        return true;
      });
  EXPECT_TRUE(reason) << describe(reason.error());
  out.reason = *reason;
  return out;
}

TEST(Session, ContinuesGreedilyAsTheReferenceDoes) {
  const Golden expected = golden();
  auto session = make(400);
  ASSERT_TRUE(session->append(expected.tokens));
  const Generated out = generate(*session, static_cast<std::int64_t>(expected.greedy.size()));
  EXPECT_EQ(out.tokens, expected.greedy);
  EXPECT_EQ(out.reason, FinishReason::kLength);
}

TEST(Session, HalvesOfAPromptAndOfAReplyGiveWhatTheWholeGives) {
  const Golden expected = golden();
  const std::span<const TokenId> tokens = expected.tokens;
  auto session = make(400);
  ASSERT_TRUE(session->append(tokens.first(129)));
  ASSERT_TRUE(session->append(tokens.subspan(129)));
  std::vector<TokenId> out = generate(*session, 5).tokens;
  for (const TokenId id : generate(*session, 7).tokens) out.push_back(id);
  EXPECT_TRUE(std::equal(out.begin(), out.end(), expected.greedy.begin()));
  EXPECT_EQ(session->pending(), expected.greedy[11]);
}

TEST(Session, AReplysLastTokenEntersTheStateWithTheNextPrompt) {
  const Golden expected = golden();
  const std::span<const TokenId> prompt = std::span(expected.tokens).first(40);
  auto talked = make(400);
  ASSERT_TRUE(talked->append(prompt));
  const std::vector<TokenId> reply = generate(*talked, 6).tokens;
  ASSERT_TRUE(talked->append(prompt));

  std::vector<TokenId> whole(prompt.begin(), prompt.end());
  whole.insert(whole.end(), reply.begin(), reply.end());
  whole.insert(whole.end(), prompt.begin(), prompt.end());
  auto cold = make(400);
  ASSERT_TRUE(cold->append(whole));
  EXPECT_TRUE(std::ranges::equal(talked->tokens(), whole));
  EXPECT_EQ(logits_of(*talked), logits_of(*cold));
}

TEST(Session, StopTokensEndAReplyAndStayOutOfIt) {
  const Golden expected = golden();
  auto session = make(400);
  ASSERT_TRUE(session->append(expected.tokens));
  const TokenId stop = expected.greedy[3];
  const auto first = std::ranges::find(expected.greedy, stop) - expected.greedy.begin();
  const Generated out = generate(*session, 24, std::array{stop});
  EXPECT_EQ(out.reason, FinishReason::kStop);
  EXPECT_EQ(static_cast<std::ptrdiff_t>(out.tokens.size()), first);
}

TEST(Session, APromptThatDoesNotFitChangesNothing) {
  auto session = make(100);
  const std::vector<TokenId> tokens(60, 5);
  ASSERT_TRUE(session->append(tokens));
  const auto before = logits_of(*session);
  const auto refused = session->append(tokens);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kPromptTooLong);
  EXPECT_EQ(refused.error().error().actual, 120U);
  EXPECT_EQ(refused.error().error().expected, 100U);
  EXPECT_EQ(session->position(), Position(60));
  EXPECT_EQ(logits_of(*session), before);
  EXPECT_TRUE(session->append(std::vector<TokenId>(40, 5)));
}

TEST(Session, AnEmptyPromptAndATokenOutOfRangeChangeNothing) {
  auto session = make(100);
  EXPECT_EQ(session->append({}).error().code(), ErrorCode::kEmptyPrompt);
  for (const TokenId bad : {TokenId{-1}, TokenId{320}}) {
    const auto refused = session->append(std::array<TokenId, 2>{1, bad});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::kTokenOutOfRange);
    EXPECT_EQ(refused.error().error().expected, 320U);
  }
  EXPECT_EQ(session->position(), Position(0));
}

TEST(Session, GenerationStopsAtAFullContextWithEveryTokenItHadRoomFor) {
  auto session = make(50);
  ASSERT_TRUE(session->append(std::vector<TokenId>(48, 7)));
  const Generated out = generate(*session, 100);
  EXPECT_EQ(out.reason, FinishReason::kContextFull);
  EXPECT_EQ(out.tokens.size(), 3U) << "two that entered the state and one that did not need to";
  EXPECT_EQ(session->position(), Position(50));
}

TEST(Session, NothingToSampleFromIsAnError) {
  auto session = make(50);
  Sampler sampler = *Sampler::create({}, 320);
  const auto refused = session->generate({}, sampler, [](TokenId) { return true; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kNoLogits);
  const auto nothing = session->generate({.max_tokens = 0}, sampler, [](TokenId) { return true; });
  EXPECT_EQ(nothing.value(), FinishReason::kLength) << "no tokens need no logits";
}

TEST(Session, ACancelledPromptStopsAfterAWholeChunkAndCanBeFinished) {
  const Golden expected = golden();
  const std::span<const TokenId> tokens = expected.tokens;
  auto session = make(400, 64);
  const auto cancelled = session->append(
      tokens, [&](Tokens done, Tokens) { done == Tokens(128) ? session->cancel() : void(); });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(session->position(), Position(128));
  EXPECT_TRUE(session->last_logits().empty()) << "those of an inner chunk are nobody's";
  ASSERT_TRUE(session->append(tokens.subspan(128)));
  auto cold = make(400);
  ASSERT_TRUE(cold->append(tokens));
  EXPECT_EQ(logits_of(*session), logits_of(*cold));
}

TEST(Session, ACheckpointComesBackWithTheSameBitsAfterOtherWork) {
  const Golden expected = golden();
  auto session = make(400);
  ASSERT_TRUE(session->append(std::span(expected.tokens).first(130)));
  const auto checkpoint = session->checkpoint();
  ASSERT_TRUE(checkpoint);
  const auto first = generate(*session, 20);
  const auto first_logits = logits_of(*session);
  ASSERT_TRUE(session->reset());
  ASSERT_TRUE(session->append(std::vector<TokenId>(200, 9)));
  ASSERT_TRUE(session->restore(*checkpoint));
  EXPECT_EQ(generate(*session, 20).tokens, first.tokens);
  EXPECT_EQ(logits_of(*session), first_logits);
}

TEST(Session, ResetGivesWhatAFreshSessionGives) {
  auto used = make(200);
  ASSERT_TRUE(used->append(std::vector<TokenId>(150, 3)));
  ASSERT_TRUE(used->reset());
  ASSERT_TRUE(used->append(std::array<TokenId, 2>{4, 5}));
  auto fresh = make(200);
  ASSERT_TRUE(fresh->append(std::array<TokenId, 2>{4, 5}));
  EXPECT_EQ(logits_of(*used), logits_of(*fresh));
}

TEST(Session, TwoThreadsWithASessionEachShareModelAndPool) {
  const Golden expected = golden();
  const Machine shared = machine(2);
  const auto work = [&](std::vector<TokenId>& out) {
    auto session = make(400, 64, shared);
    ASSERT_TRUE(session->append(expected.tokens));
    out = generate(*session, 24).tokens;
  };
  std::vector<TokenId> a;
  std::vector<TokenId> b;
  {
    std::jthread first([&] { work(a); });
    std::jthread second([&] { work(b); });
  }
  EXPECT_EQ(a, expected.greedy);
  EXPECT_EQ(b, expected.greedy);
}

TEST(Session, ThePlanIsWhatIsAllocated) {
  auto session = make(400, 64);
  const MemoryPlan& plan = session->memory_plan();
  // 2 attention layers x 2 KV heads x 16 numbers x 2 sides x 4 bytes a position, and 3 layers of
  // 2 x 64 inputs of a convolution.
  EXPECT_EQ(plan.state.logical_bytes, Bytes(400 * 2 * 2 * 16 * 2 * 4 + 3 * 2 * 64 * 4));
  EXPECT_EQ(session->workspace_bytes(), plan.workspace_bytes);
  const std::int64_t block = plan.state.recurrent_bytes.value() / 2;
  EXPECT_EQ(session->state_bytes(), Bytes(block)) << "a fresh state shares the initial values";
  ASSERT_TRUE(session->append(std::vector<TokenId>(400, 3)));
  EXPECT_EQ(session->state_bytes(), plan.state.page_bytes + Bytes(block));
}

TEST(Session, RefusesContextsThatAreEmptyOrBeyondTheModelOrTheMemory) {
  const auto refused = [](const MemoryOptions& options) {
    return Session::create(tiny_model(), machine(), options).error().error();
  };
  EXPECT_EQ(refused({.context = Tokens(0)}).code, ErrorCode::kEmptyContext);
  const Error beyond = refused({.context = Tokens(4097)});
  EXPECT_EQ(beyond.code, ErrorCode::kContextBound);
  EXPECT_EQ(beyond.actual, 4097U);
  EXPECT_EQ(beyond.expected, 4096U);
  const Error memory = refused({.memory_limit = Bytes(1000)});
  EXPECT_EQ(memory.code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(memory.expected, 1000U);
  EXPECT_GT(memory.actual, 1000U);
}

TEST(MemoryPlan, TheLongestContextIsTheLastThatFits) {
  const auto model = tiny_model();
  const MemoryOptions options{.keys = codec::Kind::kF16, .values = codec::Kind::kF16};
  MemoryOptions sized = options;
  sized.context = Tokens(1000);
  const Bytes budget = plan_memory(model->config, sized)->total();
  const Tokens longest = *longest_context(model->config, options, budget);
  sized.context = longest;
  EXPECT_LE(plan_memory(model->config, sized)->total(), budget);
  sized.context = longest + Tokens(1);
  EXPECT_GT(plan_memory(model->config, sized)->total(), budget);
  EXPECT_FALSE(longest_context(model->config, options, Bytes(10)));
}

}  // namespace
}  // namespace kvant::engine
