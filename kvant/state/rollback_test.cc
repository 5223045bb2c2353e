// Taking positions back: as deep as planned, exactly, and without touching anybody else's rows.
#include <gtest/gtest.h>

#include "kvant/state/sequence.h"
#include "tests/support/state_driver.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

using test::StateDriver;
using test::TestDevice;
using test::Versions;

std::shared_ptr<PagePool> make_pool(TestDevice& device, std::int64_t max_rollback,
                                    std::int64_t n_snapshots = 4) {
  return PagePool::create(device,
                          make_plan(test::full_layout(4), {.context = Tokens(64),
                                                           .n_sequences = 2,
                                                           .n_snapshots = n_snapshots,
                                                           .max_rollback = Tokens(max_rollback)})
                              .value())
      .value();
}

// What speculative decoding does: a draft of n positions in one step, of which k are refused.
TEST(Rollback, OfARejectedDraftGoesOnLikeARunThatNeverSawIt) {
  for (const std::int64_t depth : {1, 2, 4, 9}) {
    for (std::int64_t n = 1; n <= 10; ++n) {
      for (std::int64_t refused = 0; refused <= std::min(n, depth); ++refused) {
        TestDevice device;
        StateDriver driver(make_pool(device, depth), Tokens(64),
                           StateDriver::Exhaustion::kImpossible);
        driver.write(Versions::kAll);
        ASSERT_EQ(driver.step(11), "");
        ASSERT_EQ(driver.step(n), "");
        ASSERT_EQ(driver.rollback(refused), "");
        ASSERT_EQ(driver.compare(), "");
        ASSERT_EQ(driver.step(3), "");
        ASSERT_EQ(driver.compare(), "");
      }
    }
  }
}

TEST(Rollback, IntoAStepWhoseVersionsWereNotWrittenIsRefusedButItsBeginningIsNot) {
  TestDevice device;
  StateDriver driver(make_pool(device, 6), Tokens(64), StateDriver::Exhaustion::kImpossible);
  ASSERT_EQ(driver.step(10), "");
  ASSERT_EQ(driver.step(4), "");
  for (const std::int64_t inner : {1, 2, 3}) {
    EXPECT_FALSE(driver.sequence().can_roll_back(Tokens(inner)));
    const Error error = driver.sequence().rollback(Tokens(inner)).error();
    EXPECT_EQ(error.code, ErrorCode::kRollbackBound);
    EXPECT_EQ(error.actual, static_cast<std::uint64_t>(inner));
    EXPECT_EQ(error.expected, 4u);
  }
  EXPECT_EQ(driver.sequence().rollback_depth(), Tokens(4));
  EXPECT_EQ(driver.rollback(4), "");
  EXPECT_EQ(driver.compare(), "");
}

TEST(Rollback, DeeperThanPlannedOrBeyondTheStartIsRefused) {
  TestDevice device;
  StateDriver driver(make_pool(device, 3), Tokens(64), StateDriver::Exhaustion::kImpossible);
  EXPECT_EQ(driver.rollback(1), "");  // refused, as the reference says
  for (int i = 0; i < 2; ++i) ASSERT_EQ(driver.step(1), "");
  EXPECT_EQ(driver.rollback(3), "");
  EXPECT_EQ(driver.rollback(2), "");
  EXPECT_EQ(driver.sequence().position(), Position(0));
  for (int i = 0; i < 8; ++i) ASSERT_EQ(driver.step(1), "");
  EXPECT_EQ(driver.rollback(4), "");
  EXPECT_EQ(driver.rollback(2), "");
  EXPECT_EQ(driver.rollback(2), "");  // one is left of three
  EXPECT_EQ(driver.rollback(1), "");
  EXPECT_EQ(driver.compare(), "");
  EXPECT_EQ(driver.rollback(-1), "");
}

// The pages that were taken back belong to the snapshot still, so they are not written again.
TEST(Rollback, LeavesRowsOfSnapshotsAlone) {
  TestDevice device;
  StateDriver driver(make_pool(device, 5), Tokens(64), StateDriver::Exhaustion::kImpossible);
  ASSERT_EQ(driver.step(7), "");
  for (int i = 0; i < 3; ++i) ASSERT_EQ(driver.step(1), "");
  ASSERT_EQ(driver.snapshot(), "");
  ASSERT_EQ(driver.rollback(3), "");
  ASSERT_EQ(driver.step(5), "");
  ASSERT_EQ(driver.compare(), "");
  ASSERT_EQ(driver.restore(), "");
  ASSERT_EQ(driver.compare(), "");
  EXPECT_EQ(driver.sequence().rollback_depth(), Tokens(3));  // the snapshot's
  ASSERT_EQ(driver.rollback(2), "");
  ASSERT_EQ(driver.compare(), "");
}

TEST(Rollback, TakesAndReturnsNothing) {
  TestDevice device;
  const auto pool = make_pool(device, 5);
  StateDriver driver(pool, Tokens(64), StateDriver::Exhaustion::kImpossible);
  ASSERT_EQ(driver.step(7), "");
  for (int i = 0; i < 3; ++i) ASSERT_EQ(driver.step(1), "");
  const Bytes used = pool->used();
  const std::int64_t copied = device.copied_bytes();
  ASSERT_TRUE(driver.sequence().rollback(Tokens(3)));
  EXPECT_EQ(device.copied_bytes(), copied);
  EXPECT_EQ(pool->used(), used);  // pages stay for the positions that follow
}

TEST(Rollback, BytesAreInThePlan) {
  const auto plan_of = [](std::int64_t depth) {
    return make_plan(test::full_layout(4),
                     {.context = Tokens(64), .max_step = Tokens(8), .max_rollback = Tokens(depth)})
        .value();
  };
  const Plan none = plan_of(0);
  const Plan five = plan_of(5);
  EXPECT_EQ(none.rollback_bytes(), Bytes(0));
  EXPECT_GT(five.rollback_bytes(), Bytes(0));
  // Alignment may swallow some of it, never a whole line a component and block.
  const Bytes more = five.pool_bytes - none.pool_bytes;
  EXPECT_LE(more, five.rollback_bytes() + Bytes(2 * 64 * 12));
  EXPECT_GE(more + Bytes(2 * 64 * 12), five.rollback_bytes());
  EXPECT_EQ(five.logical_bytes, none.logical_bytes);
}

TEST(ResetKeepingPages, TheNextPrefillTakesNothingAndEqualsAFreshState) {
  TestDevice device;
  const auto pool =
      PagePool::create(
          device, make_plan(test::mixed_layout(4),
                            {.context = Tokens(64), .n_sequences = 2, .max_rollback = Tokens(2)})
                      .value())
          .value();
  StateDriver driver(pool, Tokens(64), StateDriver::Exhaustion::kImpossible);
  ASSERT_EQ(driver.step(40), "");
  const Bytes used = pool->used();
  ASSERT_EQ(driver.reset(KeptPages::kAll), "");
  ASSERT_EQ(driver.compare(), "");
  EXPECT_EQ(pool->used(), used);
  // Somebody else may take all that is left.
  std::vector<std::vector<PoolRef>> taken;
  for (std::size_t c = 0; c < pool->geometry().n_classes(); ++c) {
    std::vector<std::int64_t> counts(pool->geometry().n_classes(), 0);
    counts[c] = 1;
    for (std::vector<PoolRef> one(1); pool->take(counts, one); one = std::vector<PoolRef>(1)) {
      taken.push_back(std::move(one));
    }
  }
  ASSERT_EQ(driver.step(13), "");
  ASSERT_EQ(driver.step(27), "");
  ASSERT_EQ(driver.compare(), "");
}

TEST(ResetKeepingPages, DoesNotKeepWhatASnapshotRefersTo) {
  TestDevice device;
  const auto pool = make_pool(device, 2);
  StateDriver driver(pool, Tokens(64), StateDriver::Exhaustion::kImpossible);
  ASSERT_EQ(driver.step(10), "");
  ASSERT_EQ(driver.snapshot(), "");
  ASSERT_EQ(driver.reset(KeptPages::kAll), "");
  ASSERT_EQ(driver.step(10), "");
  ASSERT_EQ(driver.compare(), "");
  ASSERT_EQ(driver.restore(), "");
  ASSERT_EQ(driver.compare(), "");
}

}  // namespace
}  // namespace kvant::state
