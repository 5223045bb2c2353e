// What a step leaves behind when the device or the pool fails at any point, for every point.
#include <gtest/gtest.h>

#include "kvant/state/sequence.h"
#include "tests/support/state_driver.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

using test::compare_all;
using test::Remembered;
using test::Stamps;
using test::TestDevice;

Plan plan_for(std::int64_t context) {
  return make_plan(test::full_layout(4), {.context = Tokens(context),
                                          .n_sequences = 3,
                                          .n_snapshots = 3,
                                          .max_rollback = Tokens(2)})
      .value();
}

void finish_step(Sequence& sequence, Remembered& remembered, const Stamps& stamps) {
  const Position start = sequence.position();
  ASSERT_EQ(test::write_step(sequence, remembered.stamps, stamps), "");
  ASSERT_TRUE(sequence.commit(start, Tokens(static_cast<std::int64_t>(stamps.size()))));
  test::remember(remembered, stamps);
}

// A sequence that shares its open pages and its block with a fork, about to make a long step.
struct Shared {
  explicit Shared(TestDevice& device)
      : pool(PagePool::create(device, plan_for(16)).value()),
        sequence(Sequence::create(pool, Tokens(16)).value()) {
    EXPECT_TRUE(sequence.prepare(Tokens(6)));
    finish_step(sequence, remembered, {1, 2, 3, 4, 5, 6});
    branches.push_back(sequence.fork().value());
  }

  std::shared_ptr<PagePool> pool;
  Sequence sequence;
  Remembered remembered;
  std::vector<Sequence> branches;
};

class EveryFailure : public ::testing::TestWithParam<TestDevice::Failing> {};

TEST_P(EveryFailure, OfADeviceCallInPrepareChangesNothingAndARetrySucceeds) {
  std::int64_t k = 0;
  for (;; ++k) {
    TestDevice device;
    Shared world(device);
    const Bytes used = world.pool->used();
    device.fail_call(k, GetParam());
    const Status status = world.sequence.prepare(Tokens(9));
    const bool failed = device.n_failures() > 0;
    device.stop_failing();
    ASSERT_EQ(status.has_value(), !failed) << k;
    if (!failed) break;
    EXPECT_EQ(status.error().code, ErrorCode::kCopyFailed);
    EXPECT_EQ(world.pool->used(), used);
    EXPECT_EQ(compare_all(world.sequence, world.remembered), "");
    EXPECT_EQ(compare_all(world.branches[0], world.remembered), "");
    const Remembered before = world.remembered;
    ASSERT_TRUE(world.sequence.prepare(Tokens(9)));
    finish_step(world.sequence, world.remembered, {7, 8, 9, 10, 11, 12, 13, 14, 15});
    EXPECT_EQ(compare_all(world.sequence, world.remembered), "");
    EXPECT_EQ(compare_all(world.branches[0], before), "");
  }
  EXPECT_GT(k, 9 + 7);  // the open pages' rows by component and head; what is live of the block
}

TEST_P(EveryFailure, OfADeviceCallInCreatingAPoolIsReportedAndLeaksNothing) {
  std::int64_t k = 0;
  for (;; ++k) {
    TestDevice device;
    device.fail_call(k, GetParam());
    const auto pool = PagePool::create(device, plan_for(16));
    ASSERT_EQ(pool.has_value(), device.n_failures() == 0);
    if (pool) break;
  }
  EXPECT_EQ(k, 8);  // reserve, six fills, synchronize
}

INSTANTIATE_TEST_SUITE_P(Faults, EveryFailure,
                         ::testing::Values(TestDevice::Failing::kOnce,
                                           TestDevice::Failing::kFromThenOn));

TEST(PoolExhaustion, AtEveryAllocationLeavesEverythingAsItWas) {
  // Takes k more bytes' worth of blocks away before the step, until the step does not fit.
  std::int64_t n_refused = 0;
  for (std::int64_t hold = 0;; ++hold) {
    TestDevice device;
    Shared world(device);
    const Geometry& geometry = world.pool->geometry();
    std::vector<std::int64_t> counts(geometry.n_classes(), 0);
    counts[geometry.block_class()] = hold;
    std::vector<PoolRef> held(static_cast<std::size_t>(hold));
    if (!world.pool->take(counts, held)) break;
    const Bytes used = world.pool->used();
    const Status status = world.sequence.prepare(Tokens(9));
    if (status) continue;
    ++n_refused;
    EXPECT_EQ(status.error().code, ErrorCode::kPoolExhausted);
    EXPECT_EQ(status.error().expected,
              static_cast<std::uint64_t>((world.pool->budget() - used).value()));
    EXPECT_GT(status.error().actual, status.error().expected);
    EXPECT_EQ(world.pool->used(), used);
    EXPECT_EQ(compare_all(world.sequence, world.remembered), "");
    EXPECT_EQ(compare_all(world.branches[0], world.remembered), "");
    held.clear();
    ASSERT_TRUE(world.sequence.prepare(Tokens(9)));
    finish_step(world.sequence, world.remembered, {7, 8, 9, 10, 11, 12, 13, 14, 15});
    EXPECT_EQ(compare_all(world.sequence, world.remembered), "");
  }
  EXPECT_GT(n_refused, 3);
}

TEST(PoolExhaustion, OfOneSequenceLeavesTheOthersOfABatchRunning) {
  TestDevice device;
  Shared world(device);
  const Geometry& geometry = world.pool->geometry();
  Bytes need = geometry.block_bytes;
  for (const PageGroup& group : geometry.groups) need += group.page_bytes;
  std::vector<std::int64_t> counts(geometry.n_classes(), 0);
  // Leaves room for one diverging step, not for two.
  counts[geometry.block_class()] =
      (world.pool->budget() - world.pool->used() - need).value() / geometry.block_bytes.value();
  std::vector<PoolRef> held(static_cast<std::size_t>(counts[geometry.block_class()]));
  ASSERT_TRUE(world.pool->take(counts, held));
  world.branches.push_back(world.sequence.fork().value());
  Sequence* const batch[] = {&world.branches[0], &world.branches[1]};
  const Tokens steps[] = {Tokens(1), Tokens(1)};
  Status statuses[2];
  prepare_all(batch, steps, statuses);
  ASSERT_TRUE(statuses[0]);
  EXPECT_EQ(statuses[1].error().code, ErrorCode::kPoolExhausted);
  Remembered first = world.remembered;
  finish_step(world.branches[0], first, {50});
  EXPECT_EQ(compare_all(world.branches[0], first), "");
  EXPECT_EQ(compare_all(world.branches[1], world.remembered), "");
  EXPECT_EQ(compare_all(world.sequence, world.remembered), "");
}

}  // namespace
}  // namespace kvant::state
