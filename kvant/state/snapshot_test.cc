#include "kvant/state/snapshot.h"

#include <gtest/gtest.h>

#include <optional>

#include "kvant/state/sequence.h"
#include "tests/support/reference_state.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

using test::compare_all;
using test::mixed_layout;
using test::Remembered;
using test::Stamps;
using test::TestDevice;

std::shared_ptr<PagePool> make_pool(TestDevice& device, std::int64_t context = 16,
                                    std::int64_t page = 4) {
  return PagePool::create(
             device, make_plan(mixed_layout(page),
                               {.context = Tokens(context), .n_sequences = 4, .n_snapshots = 4})
                         .value())
      .value();
}

// A sequence with what it should remember beside it.
struct Story {
  explicit Story(const std::shared_ptr<PagePool>& pool)
      : sequence(Sequence::create(pool, pool->plan().request.context).value()) {}

  // n steps of one token.
  void run(std::int64_t n, std::int64_t stamp) {
    for (std::int64_t i = 0; i < n; ++i) {
      const Position start = sequence.position();
      ASSERT_TRUE(sequence.prepare(Tokens(1)));
      ASSERT_EQ(test::write_step(sequence, remembered.stamps, {stamp + i}), "");
      ASSERT_TRUE(sequence.commit(start, Tokens(1)));
      test::remember(remembered, {stamp + i});
    }
  }

  Sequence sequence;
  Remembered remembered;
};

TEST(Snapshot, RestoresTheSameBytesWhateverTheSourceDidAfterwards) {
  for (std::int64_t position = 0; position <= 12; ++position) {
    TestDevice device;
    const auto pool = make_pool(device);
    std::optional<Story> story(pool);
    story->run(position, 10);
    const Remembered then = story->remembered;
    const Snapshot snapshot = story->sequence.snapshot().value();
    EXPECT_EQ(snapshot.position(), Position(position));
    EXPECT_EQ(snapshot.layout(), pool->plan().layout);

    Sequence other = Sequence::create(pool, Tokens(16)).value();
    const auto expect_good = [&](const char* after) {
      ASSERT_TRUE(other.restore(snapshot)) << after;
      EXPECT_EQ(compare_all(other, then), "") << after << " at " << position;
    };
    story->run(4, 50);
    expect_good("running on");
    ASSERT_TRUE(story->sequence.restore(snapshot));
    story->remembered = then;
    EXPECT_EQ(compare_all(story->sequence, then), "");
    story->run(3, 90);
    expect_good("restoring and taking another way");
    ASSERT_TRUE(story->sequence.prepare(Tokens(1)));
    test::scribble(story->sequence, position + 3);
    story->sequence.poison();
    expect_good("a failed step");
    ASSERT_TRUE(story->sequence.reset());
    story->remembered = {};
    story->run(position + 2, 200);
    expect_good("a reset and another prompt");
    story.reset();
    expect_good("its destruction");
  }
}

TEST(Snapshot, CostsNoPoolBytesWhenTakenAndTheOpenPagesWhenTheSourceGoesOn) {
  TestDevice device;
  const auto pool = make_pool(device);
  Story story(pool);
  story.run(6, 10);
  const Bytes before = pool->used();
  const std::int64_t copied = device.copied_bytes();
  const Snapshot snapshot = story.sequence.snapshot().value();
  const Snapshot copy = snapshot;
  EXPECT_EQ(pool->used(), before);
  EXPECT_EQ(device.copied_bytes(), copied);
  EXPECT_EQ(snapshot.owned_bytes(), Bytes(0));
  EXPECT_EQ(snapshot.shared_bytes(), story.sequence.resident_bytes());

  story.run(1, 20);
  const Geometry& geometry = pool->geometry();
  const Bytes open = geometry.class_bytes(0) + geometry.class_bytes(1) + geometry.block_bytes;
  EXPECT_EQ(pool->used(), before + open);
  EXPECT_EQ(snapshot.owned_bytes(), open);
  EXPECT_EQ(snapshot.owned_bytes() + snapshot.shared_bytes(),
            copy.owned_bytes() + copy.shared_bytes());
  // Live rows only: two positions of keys (2 heads x 3 f32), of values (2 heads x 1 f16), one
  // compressed row (2 f32), and five floats of the block.
  EXPECT_EQ(device.copied_bytes() - copied, 2 * (24 + 4) + 8 + 20);
  story.run(1, 21);
  EXPECT_EQ(pool->used(), before + open);  // the copy is written in place from now on
}

TEST(Snapshot, AtAPageBorderOnlyTheBlockIsCopied) {
  TestDevice device;
  const auto pool = make_pool(device);
  Story story(pool);
  story.run(8, 10);
  const Snapshot snapshot = story.sequence.snapshot().value();
  const std::int64_t copied = device.copied_bytes();
  story.run(1, 30);
  EXPECT_EQ(device.copied_bytes() - copied, 5 * 4);  // what the block holds
  EXPECT_EQ(snapshot.owned_bytes(), pool->geometry().block_bytes);
}

TEST(Snapshot, BytesOfSequencesAndSnapshotsAddUpToThePool) {
  TestDevice device;
  const auto pool = make_pool(device);
  Story story(pool);
  story.run(7, 10);
  const Snapshot snapshot = story.sequence.snapshot().value();
  story.run(5, 40);
  // All objects: the sequence's, what only the snapshot holds, and the block of initial values.
  EXPECT_EQ(pool->used(), story.sequence.resident_bytes() + snapshot.owned_bytes() +
                              pool->geometry().block_bytes);
}

TEST(Snapshot, MemoryReturnsWithTheLastReference) {
  TestDevice device;
  const auto pool = make_pool(device);
  const Bytes before = pool->used();
  {
    std::optional<Snapshot> snapshot;
    {
      Story story(pool);
      story.run(9, 10);
      snapshot = story.sequence.snapshot().value();
    }
    EXPECT_EQ(pool->used(), before + snapshot->owned_bytes());
  }
  EXPECT_EQ(pool->used(), before);
}

TEST(Snapshot, OutlivesThePoolsOtherHolders) {
  TestDevice device;
  std::optional<Snapshot> snapshot;
  Remembered then;
  {
    Story story(make_pool(device));
    story.run(5, 10);
    then = story.remembered;
    snapshot = story.sequence.snapshot().value();
  }
  EXPECT_EQ(snapshot->position(), Position(5));
  EXPECT_GT(snapshot->owned_bytes(), Bytes(0));
}

TEST(Snapshot, RestoreRefusesWhatDoesNotFitAndChangesNothing) {
  TestDevice device;
  const auto pool = make_pool(device);
  Story story(pool);
  story.run(9, 10);
  const Snapshot snapshot = story.sequence.snapshot().value();

  Sequence small = Sequence::create(pool, Tokens(8)).value();
  const Error bound = small.restore(snapshot).error();
  EXPECT_EQ(bound.code, ErrorCode::kContextBound);
  EXPECT_EQ(bound.actual, 9u);
  EXPECT_EQ(bound.expected, 8u);
  EXPECT_EQ(compare_all(small, {}), "");

  Story elsewhere(make_pool(device, 16, 8));
  elsewhere.run(3, 70);
  EXPECT_EQ(elsewhere.sequence.restore(snapshot).error().code, ErrorCode::kSnapshotPlanMismatch);
  EXPECT_EQ(compare_all(elsewhere.sequence, elsewhere.remembered), "");
}

TEST(Snapshot, RestoresIntoASequenceOfAnotherPool) {
  TestDevice device;
  const auto pool = make_pool(device);
  std::optional<Story> story(pool);
  story->run(9, 10);
  const test::Remembered then = story->remembered;
  std::optional<Snapshot> snapshot = story->sequence.snapshot().value();

  Story foreign(make_pool(device));
  const Bytes empty = foreign.sequence.pool()->used();
  foreign.run(3, 70);
  ASSERT_TRUE(foreign.sequence.restore(*snapshot));
  story.reset();
  snapshot.reset();
  foreign.remembered = then;
  EXPECT_EQ(compare_all(foreign.sequence, then), "");
  foreign.run(2, 80);
  EXPECT_EQ(compare_all(foreign.sequence, foreign.remembered), "");
  ASSERT_TRUE(foreign.sequence.reset());
  EXPECT_EQ(foreign.sequence.pool()->used(), empty);
}

TEST(Snapshot, ARestoreFromAnotherPoolThatFailsChangesNothing) {
  TestDevice device;
  Story story(make_pool(device));
  story.run(9, 10);
  const Snapshot snapshot = story.sequence.snapshot().value();
  Story foreign(make_pool(device));
  foreign.run(3, 70);
  for (std::int64_t call = 0;; ++call) {
    const Bytes used = foreign.sequence.pool()->used();
    device.fail_call(call, TestDevice::Failing::kOnce);
    const Status done = foreign.sequence.restore(snapshot);
    const bool failed = device.n_failures() > 0;
    device.stop_failing();
    ASSERT_EQ(done.has_value(), !failed);
    if (done) break;
    EXPECT_EQ(compare_all(foreign.sequence, foreign.remembered), "");
    EXPECT_EQ(foreign.sequence.pool()->used(), used);
  }
  EXPECT_EQ(compare_all(foreign.sequence, story.remembered), "");
}

TEST(Snapshot, RestoresIntoAnotherContextOfTheSameLayout) {
  TestDevice device;
  const auto pool = make_pool(device);
  Story story(pool);
  story.run(5, 10);
  Sequence small = Sequence::create(pool, Tokens(6)).value();
  ASSERT_TRUE(small.restore(story.sequence.snapshot().value()));
  EXPECT_EQ(compare_all(small, story.remembered), "");
  EXPECT_EQ(small.capacity(), Tokens(6));
}

TEST(Fork, IsolatesBothSidesInAnyOrderOfWriting) {
  for (std::int64_t position = 0; position <= 9; ++position) {
    for (const bool source_first : {true, false}) {
      TestDevice device;
      const auto pool = make_pool(device);
      Story source(pool);
      source.run(position, 10);
      Story branch(pool);
      branch.sequence = source.sequence.fork().value();
      branch.remembered = source.remembered;
      Story& first = source_first ? source : branch;
      Story& second = source_first ? branch : source;
      first.run(3, 100);
      EXPECT_EQ(compare_all(second.sequence, second.remembered), "");
      second.run(5, 200);
      EXPECT_EQ(compare_all(first.sequence, first.remembered), "");
      EXPECT_EQ(compare_all(second.sequence, second.remembered), "");
    }
  }
}

TEST(Fork, AThousandIdleOnesCostNoPoolBytes) {
  TestDevice device;
  const auto pool = make_pool(device);
  Story story(pool);
  story.run(7, 10);
  const Bytes before = pool->used();
  std::vector<Sequence> forks;
  for (int i = 0; i < 1000; ++i) forks.push_back(story.sequence.fork().value());
  EXPECT_EQ(pool->used(), before);
  EXPECT_EQ(compare_all(forks.back(), story.remembered), "");
}

TEST(Fork, TheLastHolderOfAnOpenPageWritesItInPlace) {
  TestDevice device;
  const auto pool = make_pool(device);
  Story story(pool);
  story.run(6, 10);
  {
    const Sequence branch = story.sequence.fork().value();
  }
  const std::int64_t copied = device.copied_bytes();
  story.run(1, 20);
  EXPECT_EQ(device.copied_bytes(), copied);
}

}  // namespace
}  // namespace kvant::state
