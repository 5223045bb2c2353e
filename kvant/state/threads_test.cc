// Sequences on several threads that share pages of one pool; meant for ThreadSanitizer.
#include <gtest/gtest.h>

#include <thread>

#include "kvant/state/sequence.h"
#include "tests/support/state_driver.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

// Forks `trunk` again and again, goes another way each time, and checks what it reads.
std::string branch_out(const Sequence& trunk, const test::Remembered& remembered,
                       std::int64_t first_stamp, std::int64_t n_rounds) {
  for (std::int64_t round = 0; round < n_rounds; ++round) {
    auto branch = trunk.fork();
    if (!branch) return describe(branch.error());
    test::Remembered mine = remembered;
    std::vector<Snapshot> snapshots;
    for (std::int64_t i = 0; i < 7; ++i) {
      const test::Stamps stamps = {first_stamp + round * 7 + i};
      const Position start = branch->position();
      if (const Status status = branch->prepare(Tokens(1)); !status) {
        return describe(status.error());
      }
      if (auto wrong = test::write_step(*branch, mine.stamps, stamps); !wrong.empty()) {
        return wrong;
      }
      if (!branch->commit(start, Tokens(1))) return "commit";
      test::remember(mine, stamps);
      if (i % 3 == 0) snapshots.push_back(branch->snapshot().value());
    }
    if (auto wrong = test::compare_all(*branch, mine); !wrong.empty()) return wrong;
    if (auto wrong = test::compare_all(trunk, remembered); !wrong.empty()) return wrong;
    if (!branch->restore(snapshots.front())) return "restore";
    mine = remembered;
    test::remember(mine, {first_stamp + round * 7});
    if (auto wrong = test::compare_all(*branch, mine); !wrong.empty()) return wrong;
  }
  return {};
}

TEST(Threads, BranchesOfOneTrunkRunSideBySide) {
  test::TestDevice device;
  const Plan plan =
      make_plan(test::full_layout(4), {.context = Tokens(24), .n_sequences = 5, .n_snapshots = 40})
          .value();
  const auto pool = PagePool::create(device, plan).value();
  const Bytes empty = pool->used();
  {
    Sequence trunk = Sequence::create(pool, Tokens(24)).value();
    test::Remembered remembered = test::remembered_of({1, 2, 3, 4, 5, 6});
    ASSERT_TRUE(trunk.prepare(Tokens(6)));
    ASSERT_EQ(test::write_step(trunk, {}, remembered.stamps), "");
    ASSERT_TRUE(trunk.commit(Position(0), Tokens(6)));

    std::array<std::string, 4> wrong;
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < wrong.size(); ++i) {
        threads.emplace_back([&, i] {
          wrong[i] = branch_out(trunk, remembered, static_cast<std::int64_t>(1000 * (i + 1)), 50);
        });
      }
    }
    for (const std::string& text : wrong) EXPECT_EQ(text, "");
  }
  EXPECT_EQ(pool->used(), empty);
}

TEST(Threads, TheLastHolderOnAnyThreadFreesAndTheNextTakerSeesNoRace) {
  test::TestDevice device;
  const Plan plan =
      make_plan(test::mixed_layout(4), {.context = Tokens(8), .n_sequences = 2, .n_snapshots = 2})
          .value();
  const auto pool = PagePool::create(device, plan).value();
  for (int round = 0; round < 50; ++round) {
    Sequence sequence = Sequence::create(pool, Tokens(8)).value();
    ASSERT_TRUE(sequence.prepare(Tokens(3)));
    ASSERT_EQ(test::write_step(sequence, {}, {1, 2, 3}), "");
    ASSERT_TRUE(sequence.commit(Position(0), Tokens(3)));
    std::jthread reader([branch = sequence.fork().value()] {
      EXPECT_EQ(test::compare_all(branch, test::remembered_of({1, 2, 3})), "");
    });
    // Writes in place or into a copy, depending on whether the reader is still there.
    ASSERT_TRUE(sequence.prepare(Tokens(2)));
    ASSERT_EQ(test::write_step(sequence, {1, 2, 3}, {4, 5}), "");
    ASSERT_TRUE(sequence.commit(Position(3), Tokens(2)));
  }
}

}  // namespace
}  // namespace kvant::state
