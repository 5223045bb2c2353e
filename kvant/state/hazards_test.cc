// What engines get wrong about snapshots, one test each: rows that belong to
// somebody else, branches, forks, parents larger than their views, steps out of turn, and restores
// that fail in the middle. DeepSeek-V4's layout, where an engine may keep compressed rows out of
// its snapshots.
#include <gtest/gtest.h>

#include "kvant/state/declarations.h"
#include "kvant/state/sequence.h"
#include "tests/support/state_driver.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

using test::compare_all;
using test::Remembered;
using test::Stamps;
using test::TestDevice;

std::shared_ptr<PagePool> make_pool(TestDevice& device) {
  return PagePool::create(
             device, plan_deepseek_v4({.n_layers = Layers(3),
                                       .compress_ratios = {0, 4, 128},
                                       .head_dim = Elements(4),
                                       .index_head_dim = Elements(2)},
                                      {.context = Tokens(400), .n_sequences = 3, .n_snapshots = 6})
                         .value())
      .value();
}

struct Story {
  explicit Story(const std::shared_ptr<PagePool>& pool)
      : sequence(Sequence::create(pool, Tokens(400)).value()) {}

  void run(std::int64_t n, std::int64_t stamp) {
    Stamps stamps;
    for (std::int64_t i = 0; i < n; ++i) stamps.push_back(stamp + 3 * i);
    const Position start = sequence.position();
    ASSERT_TRUE(sequence.prepare(Tokens(n)));
    ASSERT_EQ(test::write_step(sequence, remembered.stamps, stamps), "");
    ASSERT_TRUE(sequence.commit(start, Tokens(n)));
    test::remember(remembered, stamps);
  }
  std::string compare() const { return compare_all(sequence, remembered); }

  Sequence sequence;
  Remembered remembered;
};

TEST(Hazards, ASnapshotBringsItsOwnRowsIntoAnotherSequenceOfTheSamePlan) {
  TestDevice device;
  const auto pool = make_pool(device);
  Story a(pool);
  a.run(270, 1);
  Story b(pool);
  b.run(300, 5000);
  const Snapshot snapshot = a.sequence.snapshot().value();
  ASSERT_TRUE(b.sequence.restore(snapshot));
  EXPECT_EQ(compare_all(b.sequence, a.remembered), "");
}

TEST(Hazards, ASnapshotSurvivesAResetAndAnotherPrompt) {
  TestDevice device;
  const auto pool = make_pool(device);
  Story story(pool);
  story.run(270, 1);
  const Remembered then = story.remembered;
  const Snapshot snapshot = story.sequence.snapshot().value();
  ASSERT_TRUE(story.sequence.reset());
  story.remembered = {};
  story.run(350, 9000);
  EXPECT_EQ(story.compare(), "");
  ASSERT_TRUE(story.sequence.restore(snapshot));
  EXPECT_EQ(compare_all(story.sequence, then), "");
}

TEST(Hazards, ASnapshotAheadOfTheLivePositionRestoresWholly) {
  TestDevice device;
  const auto pool = make_pool(device);
  Story story(pool);
  story.run(20, 1);
  const Snapshot early = story.sequence.snapshot().value();
  const Remembered then_early = story.remembered;
  story.run(250, 100);
  const Snapshot late = story.sequence.snapshot().value();
  const Remembered then_late = story.remembered;
  ASSERT_TRUE(story.sequence.restore(early));
  EXPECT_EQ(compare_all(story.sequence, then_early), "");
  ASSERT_TRUE(story.sequence.restore(late));
  EXPECT_EQ(compare_all(story.sequence, then_late), "");
}

TEST(Hazards, DecodingOtherTokensAfterARewindLeavesNewerSnapshotsGood) {
  TestDevice device;
  const auto pool = make_pool(device);
  Story story(pool);
  story.run(130, 1);
  const Snapshot early = story.sequence.snapshot().value();
  const Remembered then_early = story.remembered;
  story.run(140, 100);
  const Snapshot late = story.sequence.snapshot().value();
  const Remembered then_late = story.remembered;
  ASSERT_TRUE(story.sequence.restore(early));
  story.remembered = then_early;
  story.run(150, 7000);  // writes the rows that `late` has, with other tokens
  EXPECT_EQ(story.compare(), "");
  ASSERT_TRUE(story.sequence.restore(late));
  EXPECT_EQ(compare_all(story.sequence, then_late), "");
}

TEST(Hazards, AForkHasTheCompressedRowsToo) {
  TestDevice device;
  const auto pool = make_pool(device);
  Story story(pool);
  story.run(270, 1);
  Story fork(pool);
  fork.sequence = story.sequence.fork().value();
  fork.remembered = story.remembered;
  story.run(40, 3000);
  fork.run(60, 4000);
  EXPECT_EQ(story.compare(), "");
  EXPECT_EQ(fork.compare(), "");
}

// A ring of a short context is part of a block that is larger than its rows.
TEST(Hazards, CopiesMoveLiveBytesNotTheMemoryAroundThem) {
  TestDevice device;
  const auto pool = make_pool(device);
  Story story(pool);
  story.run(3, 1);
  const Snapshot snapshot = story.sequence.snapshot().value();
  const std::int64_t before = device.copied_bytes();
  ASSERT_TRUE(story.sequence.prepare(Tokens(1)));
  // Three rows of three rings of bf16, and three rows of six compressor states of f32.
  const std::int64_t rings = 3 * 3 * 4 * 2;
  const std::int64_t states = 3 * (2 * 8 + 2 * 4 + 2 * 4) * 4;
  EXPECT_EQ(device.copied_bytes() - before, rings + states);
}

TEST(Hazards, StepsOutOfTurnAreRefused) {
  TestDevice device;
  const auto pool = make_pool(device);
  Story story(pool);
  story.run(5, 1);
  EXPECT_EQ(story.sequence.commit(Position(5), Tokens(1)).error().code,
            ErrorCode::kStepNotPrepared);
  ASSERT_TRUE(story.sequence.prepare(Tokens(2)));
  EXPECT_EQ(story.sequence.prepare(Tokens(2)).error().code, ErrorCode::kStepOpen);
  EXPECT_EQ(story.sequence.commit(Position(4), Tokens(2)).error().code, ErrorCode::kStepOutOfOrder);
  EXPECT_EQ(story.sequence.commit(Position(5), Tokens(1)).error().code,
            ErrorCode::kStepNotPrepared);
}

TEST(Hazards, ARestoreThatFailsInTheMiddleLeavesNoMixture) {
  TestDevice device;
  Story source(make_pool(device));
  source.run(270, 1);
  const Snapshot snapshot = source.sequence.snapshot().value();
  Story target(make_pool(device));
  target.run(140, 5000);
  std::int64_t n_failed = 0;
  for (std::int64_t call = 0;; call += 3) {
    device.fail_call(call, TestDevice::Failing::kOnce);
    const Status done = target.sequence.restore(snapshot);
    const bool failed = device.n_failures() > 0;
    device.stop_failing();
    ASSERT_EQ(done.has_value(), !failed);
    if (done) break;
    ++n_failed;
    ASSERT_EQ(target.compare(), "");
  }
  EXPECT_GT(n_failed, 5);
  EXPECT_EQ(compare_all(target.sequence, source.remembered), "");
}

}  // namespace
}  // namespace kvant::state
