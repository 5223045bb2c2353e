// Steps take nothing from the heap once a sequence exists.
#include <gtest/gtest.h>

#include <memory>

#include "kvant/state/declarations.h"
#include "kvant/state/sequence.h"
#include "tests/support/counting_new.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

TEST(Allocation, TheCounterCounts) {
  const std::int64_t before = test::n_allocations();
  const auto number = std::make_unique<int>(5);
  EXPECT_EQ(test::n_allocations() - before, 1);
}

TEST(Allocation, NoStepUpToThePlannedLengthTakesHeapMemory) {
  test::TestDevice device;
  const Plan plan =
      make_plan(test::mixed_layout(4),
                {.context = Tokens(64), .n_sequences = 2, .n_snapshots = 2, .max_step = Tokens(9)})
          .value();
  const auto pool = PagePool::create(device, plan).value();
  Sequence sequence = Sequence::create(pool, Tokens(64)).value();
  const auto step = [&](std::int64_t n) {
    const std::int64_t before = test::n_allocations();
    const Position start = sequence.position();
    const bool done = sequence.prepare(Tokens(n)) &&
                      sequence.rows(LayerIndex(0), ComponentKind::kKeys) &&
                      sequence.recurrent(LayerIndex(1), ComponentKind::kConvState) &&
                      sequence.commit(start, Tokens(n));
    EXPECT_TRUE(done);
    return test::n_allocations() - before;
  };
  for (int i = 0; i < 10; ++i) EXPECT_EQ(step(1), 0);
  EXPECT_EQ(step(9), 0);
  const Snapshot snapshot = sequence.snapshot().value();
  EXPECT_EQ(step(9), 0);  // copies what the snapshot refers to
  const std::int64_t before = test::n_allocations();
  ASSERT_TRUE(sequence.restore(snapshot));
  ASSERT_TRUE(sequence.prepare(Tokens(2)));
  sequence.poison();
  ASSERT_TRUE(sequence.reset());
  EXPECT_EQ(test::n_allocations() - before, 0);
  EXPECT_EQ(step(9), 0);
}

TEST(Allocation, ALongerStepIsAllowed) {
  test::TestDevice device;
  const Plan plan =
      make_plan(test::mixed_layout(4), {.context = Tokens(64), .max_step = Tokens(1)}).value();
  Sequence sequence = Sequence::create(PagePool::create(device, plan).value(), Tokens(64)).value();
  EXPECT_TRUE(sequence.prepare(Tokens(64)));
}

// 43 layers, as DeepSeek-V4 Flash, with positions taken back in between.
TEST(Allocation, NoStepOrRollbackOfALargeModelTakesHeapMemory) {
  DeepSeekV4StateShape shape{.n_layers = Layers(43), .head_dim = Elements(8)};
  for (int i = 0; i < 43; ++i) shape.compress_ratios.push_back(i < 2 ? 0 : i % 2 == 0 ? 4 : 128);
  test::TestDevice device;
  const auto pool =
      PagePool::create(
          device,
          plan_deepseek_v4(shape, {.context = Tokens(1024), .max_rollback = Tokens(4)}).value())
          .value();
  Sequence sequence = Sequence::create(pool, Tokens(1024)).value();
  EXPECT_EQ(sequence.table_bytes(), pool->plan().table_bytes);
  const std::int64_t before = test::n_allocations();
  for (int i = 0; i < 400; ++i) {
    ASSERT_TRUE(sequence.prepare(Tokens(1)));
    ASSERT_TRUE(sequence.commit(sequence.position(), Tokens(1)));
    if (i % 9 == 8) {
      ASSERT_TRUE(sequence.rollback(Tokens(4)));
    }
  }
  ASSERT_TRUE(sequence.prepare(Tokens(300)));
  ASSERT_TRUE(sequence.commit(sequence.position(), Tokens(300)));
  EXPECT_EQ(test::n_allocations() - before, 0);
}

}  // namespace
}  // namespace kvant::state
