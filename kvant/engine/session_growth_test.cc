// Sessions that begin small: the same bits as large ones, and nothing lost when memory runs out.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvant/engine/session.h"
#include "tests/support/tiny_model.h"

namespace kvant::engine {
namespace {

// The host's memory, of which no more can be had once `full` is set.
class LimitedDevice final : public tensor::Device {
 public:
  bool full = false;

  const char* name() const override { return "limited"; }
  Result<tensor::DeviceMemory> reserve(Bytes bytes) override {
    if (full) return Error{.code = ErrorCode::kOutOfMemory, .actual = bytes.size()};
    return tensor::host_device().reserve(bytes);
  }
  Status release(std::byte* data, Bytes bytes) override {
    return tensor::host_device().release(data, bytes);
  }
  Status copy(std::byte* to, const std::byte* from, Bytes bytes) override {
    return tensor::host_device().copy(to, from, bytes);
  }
  Status fill(std::byte* to, std::int64_t n_floats, float value) override {
    return tensor::host_device().fill(to, n_floats, value);
  }
  Status synchronize() override { return tensor::host_device().synchronize(); }

 protected:
  void free(std::byte*, Bytes) noexcept override {}
};

class SessionGrowth : public testing::Test {
 protected:
  std::unique_ptr<Session> make(std::optional<Tokens> start) {
    Machine machine = create_machine(1).value();
    machine.device = &device_;
    auto session = Session::create(
        model_, std::move(machine),
        {.context = Tokens(300), .start = start, .chunk = Tokens(64), .n_snapshots = 1});
    EXPECT_TRUE(session) << describe(session.error());
    return std::move(*session);
  }

  NamedResult<FinishReason> generate(Session& session, std::int64_t n,
                                     std::vector<TokenId>& tokens) {
    Sampler sampler = Sampler::create({}, model_->config.vocab_size).value();
    return session.generate({.max_tokens = n, .stop_tokens = {}}, sampler, [&](TokenId id) {
      tokens.push_back(id);
      return true;
    });
  }

  LimitedDevice device_;
  std::shared_ptr<const model::LoadedModel> model_ = test::tiny_model();
  const std::vector<TokenId> prompt_ = std::vector<TokenId>(100, 5);
};

TEST_F(SessionGrowth, AnyStartGivesTheBitsOfAWholeContext) {
  const auto whole = make(std::nullopt);
  std::vector<TokenId> expected;
  ASSERT_TRUE(whole->append(prompt_));
  ASSERT_TRUE(generate(*whole, 500, expected));
  for (const std::int64_t start : {1, 2, 99, 100, 127, 128, 129, 300, 4000}) {
    const auto session = make(Tokens(start));
    EXPECT_EQ(session->context(), Tokens(300));
    EXPECT_EQ(session->capacity(), Tokens(std::min<std::int64_t>(start, 300)));
    std::vector<TokenId> tokens;
    ASSERT_TRUE(session->append(prompt_));
    const auto reason = generate(*session, 500, tokens);
    ASSERT_TRUE(reason) << describe(reason.error());
    EXPECT_EQ(*reason, FinishReason::kContextFull);
    EXPECT_EQ(tokens, expected);
    EXPECT_TRUE(std::ranges::equal(session->last_logits(), whole->last_logits()));
  }
}

TEST_F(SessionGrowth, WhenMemoryRunsOutTheReplyGoesOnToTheBoundAndTheErrorSaysSo) {
  const auto session = make(Tokens(110));
  ASSERT_TRUE(session->append(prompt_));
  const auto before = session->checkpoint().value();
  device_.full = true;
  std::vector<TokenId> tokens;
  const auto reason = generate(*session, 500, tokens);
  ASSERT_FALSE(reason);
  EXPECT_EQ(reason.error().code(), ErrorCode::kOutOfMemory);
  EXPECT_NE(reason.error().detail().find("from 110 to 111 positions"), std::string::npos)
      << describe(reason.error());
  EXPECT_EQ(session->position(), Position(110));
  EXPECT_EQ(tokens.size(), 11u);  // the last one waits for room

  device_.full = false;
  ASSERT_TRUE(generate(*session, 20, tokens));
  ASSERT_TRUE(session->restore(before));  // taken before the growth
  std::vector<TokenId> again;
  ASSERT_TRUE(generate(*session, 31, again));
  EXPECT_EQ(again, tokens);
}

TEST_F(SessionGrowth, APromptForWhichThereIsNoMemoryChangesNothing) {
  const auto session = make(Tokens(50));
  ASSERT_TRUE(session->append(std::vector<TokenId>(20, 3)));
  device_.full = true;
  const auto status = session->append(prompt_);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(session->position(), Position(20));
  EXPECT_TRUE(session->append(std::vector<TokenId>(30, 3)));
}

TEST_F(SessionGrowth, AStartBelowOneIsRefused) {
  const auto session = Session::create(model_, create_machine(1).value(),
                                       {.context = Tokens(300), .start = Tokens(0)});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvant::engine
