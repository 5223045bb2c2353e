// The k-th request for heap memory fails, for every k of every operation: an error, and nothing
// changed.
#include <gtest/gtest.h>

#include <functional>

#include "kvant/state/sequence.h"
#include "tests/support/counting_new.h"
#include "tests/support/reference_state.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

using test::compare_all;
using test::Remembered;
using test::Stamps;

struct World {
  World() : World(test::shift_layout(4, 6)) {}
  explicit World(const Layout& layout)
      : pool(PagePool::create(device, make_plan(layout, {.context = Tokens(60),
                                                         .n_sequences = 3,
                                                         .n_snapshots = 3,
                                                         .max_step = Tokens(4),
                                                         .max_rollback = Tokens(1),
                                                         .shifts = Shifts::kPlanned})
                                          .value())
                 .value()),
        sequence(Sequence::create(pool, Tokens(40)).value()) {
    Stamps stamps;
    for (std::int64_t i = 0; i < 30; ++i) stamps.push_back(i * 7 % 100);
    EXPECT_TRUE(sequence.prepare(Tokens(30)));
    EXPECT_EQ(test::write_step(sequence, {}, stamps), "");
    EXPECT_TRUE(sequence.commit(Position(0), Tokens(30)));
    remembered = test::remembered_of(stamps);
  }

  test::TestDevice device;
  std::shared_ptr<PagePool> pool;
  Sequence sequence;
  Remembered remembered;
};

// Lets each allocation of `operation` fail in a fresh world.
void sweep(const std::function<Status(World&)>& operation, std::int64_t at_least) {
  std::int64_t n_failed = 0;
  for (std::int64_t k = 0;; ++k) {
    World world;
    const Bytes used = world.pool->used();
    test::fail_allocation(k);
    const Status done = operation(world);
    test::fail_allocation(-1);
    if (done) break;
    ++n_failed;
    ASSERT_EQ(done.error().code, ErrorCode::kOutOfMemory) << k;
    ASSERT_EQ(compare_all(world.sequence, world.remembered), "") << k;
    ASSERT_EQ(world.pool->used(), used) << k;
  }
  EXPECT_GE(n_failed, at_least);
}

TEST(HeapFaults, OfSequencesSnapshotsAndForks) {
  sweep(
      [](World& world) -> Status {
        const auto made = Sequence::create(world.pool, Tokens(60));
        return made ? ok() : Status(made.error());
      },
      5);
  sweep(
      [](World& world) -> Status {
        const auto made = world.sequence.snapshot();
        return made ? ok() : Status(made.error());
      },
      5);
  sweep(
      [](World& world) -> Status {
        const auto made = world.sequence.fork();
        return made ? ok() : Status(made.error());
      },
      5);
}

TEST(HeapFaults, OfLongSteps) {
  sweep(
      [](World& world) -> Status {
        const auto shared = world.sequence.snapshot();
        if (!shared) return shared.error();
        KVANT_TRY(world.sequence.prepare(Tokens(10)));  // longer than max_step, and copies
        world.sequence.poison();
        return ok();
      },
      8);
}

TEST(HeapFaults, OfShiftsAndGrowth) {
  sweep([](World& world) { return world.sequence.shift({.keep = Position(3), .n = Tokens(16)}); },
        6);
  sweep([](World& world) { return world.sequence.grow(Tokens(60)); }, 1);
}

TEST(HeapFaults, OfMigrationsAndRestoresAcrossPools) {
  World source;
  const Snapshot snapshot = source.sequence.snapshot().value();
  sweep([&](World& world) { return world.sequence.restore(snapshot); }, 2);
  sweep(
      [&](World& world) -> Status {
        KVANT_TRY(world.sequence.grow(Tokens(60)));
        return world.sequence.migrate_from(source.sequence);
      },
      3);
}

TEST(HeapFaults, OfPools) {
  test::TestDevice device;
  const Plan plan = make_plan(test::full_layout(4), {.context = Tokens(9)}).value();
  std::int64_t k = 0;
  for (;; ++k) {
    test::fail_allocation(k);
    const auto pool = PagePool::create(device, plan, Commitment::kEager);
    test::fail_allocation(-1);
    if (pool) break;
    ASSERT_EQ(pool.error().code, ErrorCode::kOutOfMemory);
  }
  EXPECT_GT(k, 3);
}

}  // namespace
}  // namespace kvant::state
