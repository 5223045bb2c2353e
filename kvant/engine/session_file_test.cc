// Sessions that are saved, and go on elsewhere as if they had never stopped.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kvant/engine/golden.h"
#include "kvant/engine/session.h"
#include "kvant/model/state_fingerprint.h"
#include "kvant/state/state_file_writer.h"
#include "tests/support/folder_test.h"
#include "tests/support/tiny_model.h"

namespace kvant::engine {
namespace {

class SessionFile : public test::FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    path_ = path_of("state");
  }

  struct Shape {
    std::int64_t context = 300;
    OnFull on_full = OnFull::kError;
    codec::Kind rows = codec::Kind::kF16;
    std::int64_t chunk = 64;
    std::optional<Tokens> start = {};
    std::string model = test::kTinyModelDir;
  };

  static std::unique_ptr<Session> make(const Shape& shape) {
    auto session = Session::create(model::load_model(shape.model).value(), *create_machine(1),
                                   {.context = Tokens(shape.context),
                                    .start = shape.start,
                                    .keys = shape.rows,
                                    .values = shape.rows,
                                    .chunk = Tokens(shape.chunk),
                                    .policy = {.on_full = shape.on_full, .keep = Tokens(4)}});
    EXPECT_TRUE(session) << describe(session.error());
    return std::move(*session);
  }

  static std::vector<TokenId> prompt(std::size_t n) {
    std::vector<TokenId> tokens = read_golden(test::kTinyModelDir)->tokens;
    tokens.resize(n);
    return tokens;
  }

  static std::vector<TokenId> generate(Session& session, std::int64_t n) {
    Sampler sampler = *Sampler::create({}, session.model().config.vocab_size);
    std::vector<TokenId> tokens;
    const auto reason = session.generate({.max_tokens = n}, sampler, [&](TokenId id) {
      tokens.push_back(id);
      return true;
    });
    EXPECT_TRUE(reason) << describe(reason.error());
    return tokens;
  }

  ErrorCode code_of_loading(Session& session) const {
    const NamedStatus status = session.load(path_);
    EXPECT_FALSE(status);
    if (status) return ErrorCode::kInvalidArgument;
    EXPECT_EQ(status.error().detail(), path_);
    return status.error().code();
  }

  // A file with numbers beside the state that are not the session's.
  void write_with(const Session& session, std::span<const TokenId> tokens,
                  std::span<const float> logits) const {
    const auto checkpoint = session.checkpoint().value();
    const auto fingerprint =
        model::state_fingerprint(session.model(), checkpoint.state.layout()).value();
    auto writer =
        state::StateFileWriter::create(
            checkpoint.state, {.fingerprint = fingerprint, .tokens = tokens, .logits = logits})
            .value();
    std::vector<std::byte> bytes(writer.bytes().size());
    ASSERT_TRUE(writer.write(std::span(bytes)));
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  std::string path_;
};

void expect_equal(const Session& a, const Session& b) {
  EXPECT_TRUE(std::ranges::equal(a.tokens(), b.tokens()));
  EXPECT_TRUE(std::ranges::equal(a.last_logits(), b.last_logits()));
  EXPECT_EQ(a.pending(), b.pending());
  EXPECT_EQ(a.position(), b.position());
  EXPECT_EQ(a.lineage(), b.lineage());
}

TEST_F(SessionFile, GoesOnWithTheBitsOfOneThatNeverStopped) {
  for (const std::size_t n : {1U, 2U, 127U, 128U, 129U, 200U}) {
    auto session = make({});
    ASSERT_TRUE(session->append(prompt(n)));
    generate(*session, 5);
    const NamedStatus saved = session->save(path_);
    ASSERT_TRUE(saved) << describe(saved.error());
    for (const Shape& shape :
         {Shape{}, Shape{.context = 250, .chunk = 7}, Shape{.context = 400, .start = Tokens(3)}}) {
      auto other = make(shape);
      const NamedStatus loaded = other->load(path_);
      ASSERT_TRUE(loaded) << describe(loaded.error());
      expect_equal(*other, *session);
      auto same = make({});
      ASSERT_TRUE(same->load(path_));
      EXPECT_EQ(generate(*other, 20), generate(*same, 20));
      ASSERT_TRUE(other->append(prompt(9)));
      ASSERT_TRUE(same->append(prompt(9)));
      expect_equal(*other, *same);
    }
    auto whole = make({});
    ASSERT_TRUE(whole->append(prompt(n)));
    generate(*whole, 5);
    EXPECT_EQ(generate(*session, 20), generate(*whole, 20));
  }
}

TEST_F(SessionFile, OfAReplyCutShortContinuesIt) {
  auto whole = make({});
  ASSERT_TRUE(whole->append(prompt(50)));
  const std::vector<TokenId> expected = generate(*whole, 24);
  auto first = make({});
  ASSERT_TRUE(first->append(prompt(50)));
  std::vector<TokenId> out = generate(*first, 11);
  ASSERT_TRUE(first->save(path_));
  auto second = make({});
  ASSERT_TRUE(second->load(path_));
  EXPECT_EQ(second->pending(), out.back());
  for (const TokenId id : generate(*second, 13)) out.push_back(id);
  EXPECT_EQ(out, expected);
  expect_equal(*second, *whole);
}

TEST_F(SessionFile, OfAnEmptySessionLoadsToo) {
  ASSERT_TRUE(make({})->save(path_));
  auto session = make({});
  ASSERT_TRUE(session->append(prompt(20)));
  ASSERT_TRUE(session->load(path_));
  EXPECT_EQ(session->position(), Position(0));
  EXPECT_TRUE(session->tokens().empty());
  EXPECT_TRUE(session->last_logits().empty());
  auto fresh = make({});
  ASSERT_TRUE(fresh->append(prompt(30)));
  ASSERT_TRUE(session->append(prompt(30)));
  expect_equal(*session, *fresh);
}

// The pool of a session holds one state: what it held gives way once the file is known to be good.
TEST_F(SessionFile, ReplacesWhatTheSessionHeld) {
  auto session = make({});
  ASSERT_TRUE(session->append(prompt(250)));
  ASSERT_TRUE(session->save(path_));
  const std::vector<TokenId> expected = generate(*session, 10);
  ASSERT_TRUE(session->reset());
  ASSERT_TRUE(session->append(prompt(280)));
  const NamedStatus loaded = session->load(path_);
  ASSERT_TRUE(loaded) << describe(loaded.error());
  EXPECT_EQ(generate(*session, 10), expected);
}

TEST_F(SessionFile, OfAShiftedSessionGoesOnWhereSessionsShift) {
  const Shape shifting{.context = 64, .on_full = OnFull::kShift};
  auto session = make(shifting);
  ASSERT_TRUE(session->append(prompt(40)));
  generate(*session, 60);
  ASSERT_GT(session->figures().n_shifts, 0);
  ASSERT_TRUE(session->save(path_));
  auto other = make(shifting);
  ASSERT_TRUE(other->load(path_));
  EXPECT_EQ(other->lineage(), state::Lineage::kDerived);
  expect_equal(*other, *session);
  EXPECT_EQ(generate(*other, 100), generate(*session, 100));
  expect_equal(*other, *session);

  auto rigid = make({.context = 64});
  EXPECT_EQ(code_of_loading(*rigid), ErrorCode::kShiftNotPlanned);
  EXPECT_EQ(rigid->position(), Position(0));
}

TEST_F(SessionFile, IsForItsOwnerAlone) {
  ASSERT_TRUE(make({})->save(path_));
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(SessionFile, ThatCannotBeWrittenLeavesTheSessionAsItWas) {
  auto session = make({});
  ASSERT_TRUE(session->append(prompt(20)));
  const auto error = session->save(folder_ + "/no/such/folder").error();
  EXPECT_EQ(error.code(), ErrorCode::kFileOpenFailed);
  EXPECT_EQ(session->save(folder_).error().code(), ErrorCode::kNotAFile);
  EXPECT_EQ(generate(*session, 3).size(), 3U);
}

TEST_F(SessionFile, OfSomethingElseIsRefusedAndChangesNothing) {
  auto saved = make({});
  ASSERT_TRUE(saved->append(prompt(100)));
  ASSERT_TRUE(saved->save(path_));

  auto session = make({.rows = codec::Kind::kF32});
  ASSERT_TRUE(session->append(prompt(20)));
  EXPECT_EQ(code_of_loading(*session), ErrorCode::kSnapshotPlanMismatch);
  auto small = make({.context = 99});
  EXPECT_EQ(code_of_loading(*small), ErrorCode::kContextBound);
  EXPECT_EQ(session->load(folder_ + "/none").error().code(), ErrorCode::kFileOpenFailed);
  EXPECT_EQ(session->load(test::kTinyModelDir + "/config.json").error().code(),
            ErrorCode::kBadFormat);
  EXPECT_EQ(session->position(), Position(20));

  // The same shape with one other weight.
  const std::string other_dir = folder_ + "/model";
  std::filesystem::copy(test::kTinyModelDir, other_dir);
  {
    std::fstream file(other_dir + "/model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-2, std::ios::end);
    file.put('\x01');
  }
  auto other = make({.model = other_dir});
  EXPECT_EQ(code_of_loading(*other), ErrorCode::kFingerprintMismatch);
}

TEST_F(SessionFile, WhoseTokensOrLogitsAreNotThoseOfItsStateIsRefused) {
  auto saved = make({});
  ASSERT_TRUE(saved->append(prompt(3)));
  const std::vector<float> logits(saved->last_logits().begin(), saved->last_logits().end());
  const std::vector<TokenId> five = prompt(5);
  auto session = make({});
  for (const std::size_t n : {0U, 2U, 5U}) {
    write_with(*saved, std::span(five).first(n), logits);
    EXPECT_EQ(code_of_loading(*session), ErrorCode::kBadFormat) << n;
  }
  write_with(*saved, std::span(five).first(3), std::span(logits).first(logits.size() - 1));
  EXPECT_EQ(code_of_loading(*session), ErrorCode::kBadFormat);
  std::vector<TokenId> foreign = prompt(3);
  foreign[1] = static_cast<TokenId>(session->model().config.vocab_size);
  write_with(*saved, foreign, logits);
  EXPECT_EQ(code_of_loading(*session), ErrorCode::kTokenOutOfRange);
  EXPECT_EQ(session->position(), Position(0));
  // Three are held, a fourth waits; logits may be missing.
  for (const std::size_t n : {3U, 4U}) {
    write_with(*saved, std::span(five).first(n), {});
    ASSERT_TRUE(session->load(path_)) << n;
    EXPECT_EQ(session->pending().has_value(), n == 4);
    EXPECT_TRUE(session->last_logits().empty());
  }
}

}  // namespace
}  // namespace kvant::engine
