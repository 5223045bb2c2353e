// Every short sequence of operations, and many long ones, against the brute-force model.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <string>

#include "kvant/state/sequence.h"
#include "tests/support/state_driver.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

using test::StateDriver;
using test::TestDevice;

struct Operation {
  const char* name;
  std::string (*run)(StateDriver& driver);
};

constexpr std::array kOperations = {
    Operation{"step1", [](StateDriver& d) { return d.step(1); }},
    Operation{"step3", [](StateDriver& d) { return d.step(3); }},
    Operation{"prepare2", [](StateDriver& d) { return d.prepare(2); }},
    Operation{"commit", [](StateDriver& d) { return d.commit(); }},
    Operation{"poison", [](StateDriver& d) { return d.poison(); }},
    Operation{"reset", [](StateDriver& d) { return d.reset(); }},
    Operation{"snapshot", [](StateDriver& d) { return d.snapshot(); }},
    Operation{"restore", [](StateDriver& d) { return d.restore(); }},
    Operation{"fork", [](StateDriver& d) { return d.fork(); }},
    Operation{"swap", [](StateDriver& d) { return d.swap(), std::string(); }},
    Operation{"commit wrongly", [](StateDriver& d) { return d.commit_wrongly(); }},
};

std::shared_ptr<PagePool> make_pool(TestDevice& device, std::int64_t page, std::int64_t context,
                                    std::int64_t n_snapshots) {
  const Plan plan =
      make_plan(test::mixed_layout(page),
                {.context = Tokens(context), .n_sequences = 2, .n_snapshots = n_snapshots})
          .value();
  return PagePool::create(device, plan).value();
}

std::string story_of(std::span<const std::size_t> choices) {
  std::string text;
  for (const std::size_t choice : choices) text += std::string(kOperations[choice].name) + ", ";
  return text;
}

// Runs one story in a pool that earlier stories have left full of stale bytes.
std::string play(const std::shared_ptr<PagePool>& pool, Tokens context,
                 std::span<const std::size_t> choices, StateDriver::Exhaustion exhaustion) {
  StateDriver driver(pool, context, exhaustion);
  for (const std::size_t choice : choices) {
    const std::string wrong = kOperations[choice].run(driver);
    if (!wrong.empty()) return wrong;
  }
  return driver.compare();
}

// All stories of exactly `length` operations; shorter ones are beginnings of these, and what a
// beginning left wrong shows in one of its continuations ("swap" changes nothing).
void play_all(std::int64_t page, std::int64_t context, std::size_t length) {
  TestDevice device;
  const auto pool = make_pool(device, page, context, 4);
  const Bytes empty = pool->used();
  std::vector<std::size_t> choices(length, 0);
  for (;;) {
    const std::string wrong =
        play(pool, Tokens(context), choices, StateDriver::Exhaustion::kImpossible);
    ASSERT_EQ(wrong, "") << story_of(choices);
    ASSERT_EQ(pool->used(), empty) << "a leak after " << story_of(choices);
    std::size_t digit = 0;
    while (digit < length && ++choices[digit] == kOperations.size()) choices[digit++] = 0;
    if (digit == length) return;
  }
}

TEST(SequenceModel, EveryStoryOfFiveOperationsInASmallWorld) { play_all(2, 7, 5); }

TEST(SequenceModel, EveryStoryOfFiveOperationsWithFourPositionsAPage) { play_all(4, 6, 5); }

TEST(SequenceModel, EveryStoryOfFourOperationsInAContextOfOnePage) { play_all(8, 5, 4); }

RC_GTEST_PROP(SequenceModel, LongStories, ()) {
  const auto page = *rc::gen::element(2, 4, 8, 16);
  const auto context = *rc::gen::inRange(1, 40);
  const auto choices = *rc::gen::container<std::vector<std::size_t>>(
      rc::gen::inRange<std::size_t>(0, kOperations.size()));
  TestDevice device;
  const auto pool = make_pool(device, page, context, 4);
  const std::string wrong =
      play(pool, Tokens(context), choices, StateDriver::Exhaustion::kImpossible);
  if (!wrong.empty()) RC_FAIL(wrong + ": " + story_of(choices));
}

// A pool for two sequences and no snapshot: steps fail for lack of pages and change nothing.
RC_GTEST_PROP(SequenceModel, LongStoriesInAPoolThatIsTooSmall, ()) {
  const auto choices = *rc::gen::container<std::vector<std::size_t>>(
      rc::gen::inRange<std::size_t>(0, kOperations.size()));
  TestDevice device;
  const auto pool = make_pool(device, 4, 9, 0);
  const Bytes empty = pool->used();
  const std::string wrong = play(pool, Tokens(9), choices, StateDriver::Exhaustion::kAllowed);
  if (!wrong.empty()) RC_FAIL(wrong + ": " + story_of(choices));
  RC_ASSERT(pool->used() == empty);
}

}  // namespace
}  // namespace kvant::state
