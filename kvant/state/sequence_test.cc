#include "kvant/state/sequence.h"

#include <gtest/gtest.h>

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
using test::write_step;

constexpr LayerIndex kConvLayer{1};

struct World {
  explicit World(std::int64_t page = 4, std::int64_t context = 16, std::int64_t n_sequences = 2,
                 std::int64_t n_snapshots = 2)
      : pool(PagePool::create(device, make_plan(mixed_layout(page), {.context = Tokens(context),
                                                                     .n_sequences = n_sequences,
                                                                     .n_snapshots = n_snapshots})
                                          .value())
                 .value()) {}

  Sequence sequence() { return Sequence::create(pool, pool->plan().request.context).value(); }

  TestDevice device;
  std::shared_ptr<PagePool> pool;
};

// One whole step that remembers `stamps`.
void run(Sequence& sequence, Remembered& remembered, const Stamps& stamps) {
  const Position start = sequence.position();
  const Tokens n(static_cast<std::int64_t>(stamps.size()));
  ASSERT_TRUE(sequence.prepare(n));
  ASSERT_EQ(write_step(sequence, remembered.stamps, stamps), "");
  ASSERT_TRUE(sequence.commit(start, n));
  test::remember(remembered, stamps);
}

TEST(Sequence, StartsEmptyWithInitialValuesAndTakesNothingFromThePool) {
  World world;
  const Bytes before = world.pool->used();
  const Sequence sequence = world.sequence();
  EXPECT_EQ(sequence.position(), Position(0));
  EXPECT_EQ(sequence.capacity(), Tokens(16));
  EXPECT_FALSE(sequence.poisoned());
  EXPECT_EQ(world.pool->used(), before);
  EXPECT_EQ(compare_all(sequence, {}), "");
}

TEST(Sequence, ContextsThatThePlanDoesNotHoldAreRefused) {
  World world;
  EXPECT_EQ(Sequence::create(world.pool, Tokens(0)).error().code, ErrorCode::kEmptyContext);
  const Error error = Sequence::create(world.pool, Tokens(17)).error();
  EXPECT_EQ(error.code, ErrorCode::kContextBound);
  EXPECT_EQ(error.actual, 17u);
  EXPECT_EQ(error.expected, 16u);
  EXPECT_TRUE(Sequence::create(world.pool, Tokens(5)));
}

TEST(Sequence, RowsAndBlocksAreThoseWrittenInAnyChunking) {
  for (std::int64_t first = 1; first <= 15; ++first) {
    World world;
    Sequence sequence = world.sequence();
    Remembered remembered;
    Stamps stamps;
    for (std::int64_t i = 0; i < 16; ++i) stamps.push_back(100 + i);
    run(sequence, remembered, Stamps(stamps.begin(), stamps.begin() + first));
    EXPECT_EQ(compare_all(sequence, remembered), "");
    run(sequence, remembered, Stamps(stamps.begin() + first, stamps.end()));
    EXPECT_EQ(compare_all(sequence, remembered), "");
  }
}

TEST(Sequence, ExtentsArePagesInOrderAndRowsOfAHeadAreContiguous) {
  World world;
  Sequence sequence = world.sequence();
  Remembered remembered;
  run(sequence, remembered, Stamps(10, 7));
  const auto keys = sequence.read_rows(LayerIndex(0), ComponentKind::kKeys).value();
  ASSERT_EQ(keys.extents.size(), 3u);
  EXPECT_EQ(keys.extents[0].n_rows, 4);
  EXPECT_EQ(keys.extents[1].n_rows, 4);
  EXPECT_EQ(keys.extents[2].n_rows, 2);
  EXPECT_EQ(keys.n_heads, 2);
  EXPECT_EQ(keys.row_width, 3);
  EXPECT_EQ(keys.dtype, tensor::Dtype::kF32);
  EXPECT_EQ(keys.row_bytes, 12);
  EXPECT_EQ(keys.head_stride_bytes, 4 * 12);
  for (const tensor::Extent& extent : keys.extents) {
    EXPECT_EQ(extent.first_row, 0);
    EXPECT_EQ(extent.position_delta, 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(extent.page) % 64, 0u);
  }
  const auto compressed = sequence.read_rows(LayerIndex(3), ComponentKind::kCompressedKv).value();
  ASSERT_EQ(compressed.extents.size(), 3u);
  EXPECT_EQ(compressed.extents[2].n_rows, 1);
}

TEST(Sequence, ARowOfSeveralPositionsAppearsWithItsLastOne) {
  World world;
  Sequence sequence = world.sequence();
  Remembered remembered;
  run(sequence, remembered, {1});
  const auto view = [&] {
    return sequence.read_rows(LayerIndex(3), ComponentKind::kCompressedKv).value();
  };
  EXPECT_TRUE(view().extents.empty());
  run(sequence, remembered, {2});
  EXPECT_EQ(test::count_rows(view()), 1);
  run(sequence, remembered, {3, 4, 5});
  EXPECT_EQ(test::count_rows(view()), 2);
  EXPECT_EQ(view().extents.size(), 1u);  // the open page holds no row of this component yet
}

TEST(Sequence, ComponentsThatALayerLacksAreNamed) {
  World world;
  Sequence sequence = world.sequence();
  ASSERT_TRUE(sequence.prepare(Tokens(1)));
  const auto expect_missing = [](const Error& error, std::int32_t layer, ComponentKind kind) {
    EXPECT_EQ(error.code, ErrorCode::kComponentMissing);
    EXPECT_EQ(error.layer, layer);
    EXPECT_EQ(error.component, kind);
  };
  using enum ComponentKind;
  expect_missing(sequence.rows(kConvLayer, kKeys).error(), 1, kKeys);
  expect_missing(sequence.rows(kConvLayer, kConvState).error(), 1, kConvState);
  expect_missing(sequence.rows(LayerIndex(4), kKeys).error(), 4, kKeys);
  expect_missing(sequence.rows(LayerIndex(-1), kKeys).error(), -1, kKeys);
  expect_missing(sequence.recurrent(LayerIndex(0), kKeys).error(), 0, kKeys);
  expect_missing(sequence.recurrent(LayerIndex(2), kConvState).error(), 2, kConvState);
  sequence.poison();
  ASSERT_TRUE(sequence.reset());
  expect_missing(sequence.read_rows(LayerIndex(2), kValues).error(), 2, kValues);
  expect_missing(sequence.read_recurrent(LayerIndex(0), kConvState).error(), 0, kConvState);
}

TEST(StepProtocol, ViewsForWritingExistOnlyWithinAStep) {
  World world;
  Sequence sequence = world.sequence();
  EXPECT_EQ(sequence.rows(LayerIndex(0), ComponentKind::kKeys).error().code,
            ErrorCode::kStepNotPrepared);
  EXPECT_EQ(sequence.recurrent(kConvLayer, ComponentKind::kConvState).error().code,
            ErrorCode::kStepNotPrepared);
  ASSERT_TRUE(sequence.prepare(Tokens(1)));
  EXPECT_TRUE(sequence.rows(LayerIndex(0), ComponentKind::kKeys));
  EXPECT_EQ(sequence.read_rows(LayerIndex(0), ComponentKind::kKeys).error().code,
            ErrorCode::kStepOpen);
  EXPECT_EQ(sequence.snapshot().error().code, ErrorCode::kStepOpen);
  EXPECT_EQ(sequence.fork().error().code, ErrorCode::kStepOpen);
}

TEST(StepProtocol, OutOfOrderCommitIsRefusedAndChangesNothing) {
  World world;
  Sequence sequence = world.sequence();
  Remembered remembered;
  run(sequence, remembered, {1, 2, 3});
  ASSERT_TRUE(sequence.prepare(Tokens(2)));
  ASSERT_EQ(write_step(sequence, remembered.stamps, {4, 5}), "");
  const Error error = sequence.commit(Position(4), Tokens(2)).error();
  EXPECT_EQ(error.code, ErrorCode::kStepOutOfOrder);
  EXPECT_EQ(error.actual, 4u);
  EXPECT_EQ(error.expected, 3u);
  EXPECT_EQ(sequence.commit(Position(2), Tokens(2)).error().code, ErrorCode::kStepOutOfOrder);
  EXPECT_EQ(sequence.position(), Position(3));
  EXPECT_TRUE(sequence.step_open());
  EXPECT_TRUE(sequence.commit(Position(3), Tokens(2)));
  test::remember(remembered, {4, 5});
  EXPECT_EQ(compare_all(sequence, remembered), "");
}

TEST(StepProtocol, ACommitMustNameThePreparedLength) {
  World world;
  Sequence sequence = world.sequence();
  EXPECT_EQ(sequence.commit(Position(0), Tokens(1)).error().code, ErrorCode::kStepNotPrepared);
  EXPECT_EQ(sequence.commit(Position(0), Tokens(0)).error().code, ErrorCode::kEmptyPrefill);
  ASSERT_TRUE(sequence.prepare(Tokens(3)));
  const Error error = sequence.commit(Position(0), Tokens(2)).error();
  EXPECT_EQ(error.code, ErrorCode::kStepNotPrepared);
  EXPECT_EQ(error.actual, 2u);
  EXPECT_EQ(error.expected, 3u);
}

TEST(StepProtocol, SpansAreBoundedByTheContext) {
  World world;
  Sequence sequence = world.sequence();
  Remembered remembered;
  EXPECT_EQ(sequence.prepare(Tokens(0)).error().code, ErrorCode::kEmptyPrefill);
  EXPECT_EQ(sequence.prepare(Tokens(-1)).error().code, ErrorCode::kEmptyPrefill);
  run(sequence, remembered, Stamps(15, 3));
  const Error error = sequence.prepare(Tokens(2)).error();
  EXPECT_EQ(error.code, ErrorCode::kContextBound);
  EXPECT_EQ(error.actual, 17u);
  EXPECT_EQ(error.expected, 16u);
  EXPECT_EQ(sequence.prepare(Tokens(std::numeric_limits<std::int64_t>::max())).error().code,
            ErrorCode::kContextBound);
  run(sequence, remembered, {9});
  const Error full = sequence.prepare(Tokens(1)).error();
  EXPECT_EQ(full.code, ErrorCode::kContextExhausted);
  EXPECT_EQ(full.expected, 16u);
  EXPECT_EQ(compare_all(sequence, remembered), "");
}

TEST(StepProtocol, OnlyARunningStepCanPoison) {
  World world;
  Sequence sequence = world.sequence();
  sequence.poison();
  EXPECT_FALSE(sequence.poisoned());
  ASSERT_TRUE(sequence.prepare(Tokens(1)));
  sequence.poison();
  EXPECT_TRUE(sequence.poisoned());
}

TEST(StepProtocol, APoisonedSequenceRefusesAllButResetAndRestore) {
  World world;
  Sequence sequence = world.sequence();
  Remembered remembered;
  run(sequence, remembered, {1, 2, 3, 4, 5});
  const Snapshot snapshot = sequence.snapshot().value();
  ASSERT_TRUE(sequence.prepare(Tokens(2)));
  test::scribble(sequence, 5);
  sequence.poison();
  EXPECT_EQ(sequence.prepare(Tokens(1)).error().code, ErrorCode::kPoisoned);
  EXPECT_EQ(sequence.commit(Position(5), Tokens(2)).error().code, ErrorCode::kPoisoned);
  EXPECT_EQ(sequence.snapshot().error().code, ErrorCode::kPoisoned);
  EXPECT_EQ(sequence.fork().error().code, ErrorCode::kPoisoned);
  EXPECT_EQ(sequence.read_rows(LayerIndex(0), ComponentKind::kKeys).error().code,
            ErrorCode::kPoisoned);
  EXPECT_EQ(sequence.read_recurrent(kConvLayer, ComponentKind::kConvState).error().code,
            ErrorCode::kPoisoned);
  ASSERT_TRUE(sequence.restore(snapshot));
  EXPECT_EQ(compare_all(sequence, remembered), "");
  ASSERT_TRUE(sequence.prepare(Tokens(1)));
  sequence.poison();
  ASSERT_TRUE(sequence.reset());
  EXPECT_EQ(compare_all(sequence, {}), "");
}

TEST(StepProtocol, InABatchOneFailsWithoutTheOthers) {
  World world;
  Sequence full = world.sequence();
  Sequence fresh = world.sequence();
  Remembered remembered;
  run(full, remembered, Stamps(16, 1));
  Sequence* const sequences[] = {&full, &fresh};
  const Tokens counts[] = {Tokens(1), Tokens(3)};
  Status statuses[2];
  prepare_all(sequences, counts, statuses);
  EXPECT_EQ(statuses[0].error().code, ErrorCode::kContextExhausted);
  EXPECT_TRUE(statuses[1]);
  EXPECT_FALSE(full.step_open());
  EXPECT_TRUE(fresh.step_open());
  EXPECT_TRUE(fresh.commit(Position(0), Tokens(3)));
}

TEST(StepProtocol, MovingASequenceKeepsItsStep) {
  World world;
  Sequence sequence = world.sequence();
  ASSERT_TRUE(sequence.prepare(Tokens(2)));
  Sequence moved = std::move(sequence);
  ASSERT_EQ(write_step(moved, {}, {1, 2}), "");
  ASSERT_TRUE(moved.commit(Position(0), Tokens(2)));
  Sequence target = world.sequence();
  target = std::move(moved);
  EXPECT_EQ(compare_all(target, test::remembered_of({1, 2})), "");
}

TEST(StepProtocol, TheLastSequenceMayOutliveEveryOtherHolderOfThePool) {
  TestDevice device;
  const auto make = [&] {
    auto pool = PagePool::create(device, make_plan(mixed_layout(4), {.context = Tokens(8)}).value())
                    .value();
    return Sequence::create(std::move(pool), Tokens(8)).value();
  };
  Sequence sequence = make();
  Remembered remembered;
  run(sequence, remembered, {1, 2, 3});
  sequence = make();  // the first pool goes with its last sequence
  EXPECT_EQ(compare_all(sequence, {}), "");
}

}  // namespace
}  // namespace kvant::state
