// Every short sequence of operations, and many long ones, against the brute-force model.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <span>
#include <string>
#include <vector>

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

using Operations = std::span<const Operation>;

constexpr std::array kBasic = {
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

constexpr std::array kTakingBack = {
    Operation{"step1", [](StateDriver& d) { return d.step(1); }},
    Operation{"step5", [](StateDriver& d) { return d.step(5); }},
    Operation{"step2, all versions",
              [](StateDriver& d) {
                d.write(test::Versions::kAll);
                std::string wrong = d.step(2);
                d.write(test::Versions::kLast);
                return wrong;
              }},
    Operation{"prepare3", [](StateDriver& d) { return d.prepare(3); }},
    Operation{"commit", [](StateDriver& d) { return d.commit(); }},
    Operation{"back1", [](StateDriver& d) { return d.rollback(1); }},
    Operation{"back2", [](StateDriver& d) { return d.rollback(2); }},
    Operation{"poison", [](StateDriver& d) { return d.poison(); }},
    Operation{"reset, keeping", [](StateDriver& d) { return d.reset(KeptPages::kAll); }},
    Operation{"snapshot", [](StateDriver& d) { return d.snapshot(); }},
    Operation{"restore", [](StateDriver& d) { return d.restore(); }},
    Operation{"fork", [](StateDriver& d) { return d.fork(); }},
    Operation{"swap", [](StateDriver& d) { return d.swap(), std::string(); }},
};

constexpr std::array kShifting = {
    Operation{"step1", [](StateDriver& d) { return d.step(1); }},
    Operation{"step5", [](StateDriver& d) { return d.step(5); }},
    Operation{"shift 0 1", [](StateDriver& d) { return d.shift(0, 1); }},
    Operation{"shift 1 2", [](StateDriver& d) { return d.shift(1, 2); }},
    Operation{"shift 2 5", [](StateDriver& d) { return d.shift(2, 5); }},
    Operation{"shift 4 3", [](StateDriver& d) { return d.shift(4, 3); }},
    Operation{"back1", [](StateDriver& d) { return d.rollback(1); }},
    Operation{"prepare2", [](StateDriver& d) { return d.prepare(2); }},
    Operation{"commit", [](StateDriver& d) { return d.commit(); }},
    Operation{"reset, keeping", [](StateDriver& d) { return d.reset(KeptPages::kAll); }},
    Operation{"snapshot", [](StateDriver& d) { return d.snapshot(); }},
    Operation{"restore", [](StateDriver& d) { return d.restore(); }},
    Operation{"fork", [](StateDriver& d) { return d.fork(); }},
    Operation{"swap", [](StateDriver& d) { return d.swap(), std::string(); }},
};

// A layout, a plan and what is done in it.
struct World {
  Layout layout;
  PlanRequest request;
  Operations operations;
};

World basic_world(std::int64_t page, std::int64_t context) {
  return {.layout = test::full_layout(page),
          .request = {.context = Tokens(context), .n_sequences = 2, .n_snapshots = 4},
          .operations = kBasic};
}

World rollback_world(std::int64_t page, std::int64_t context, std::int64_t max_rollback) {
  return {.layout = test::full_layout(page),
          .request = {.context = Tokens(context),
                      .n_sequences = 2,
                      .n_snapshots = 4,
                      .max_rollback = Tokens(max_rollback)},
          .operations = kTakingBack};
}

World shift_world(std::int64_t page, std::int64_t context) {
  return {.layout = test::shift_layout(page, 4),
          .request = {.context = Tokens(context),
                      .n_sequences = 2,
                      .n_snapshots = 6,
                      .max_rollback = Tokens(1),
                      .shifts = Shifts::kPlanned},
          .operations = kShifting};
}

std::shared_ptr<PagePool> make_pool(TestDevice& device, const World& world) {
  return PagePool::create(device, make_plan(world.layout, world.request).value()).value();
}

std::string story_of(Operations operations, std::span<const std::size_t> choices) {
  std::string text;
  for (const std::size_t choice : choices) text += std::string(operations[choice].name) + ", ";
  return text;
}

// Runs one story in a pool that earlier stories have left full of stale bytes.
std::string play(const std::shared_ptr<PagePool>& pool, const World& world,
                 std::span<const std::size_t> choices, StateDriver::Exhaustion exhaustion) {
  StateDriver driver(pool, world.request.context, exhaustion);
  driver.allow_released_rows();
  for (const std::size_t choice : choices) {
    std::string wrong = world.operations[choice].run(driver);
    if (wrong.empty()) wrong = driver.compare();
    if (!wrong.empty()) return wrong;
  }
  return {};
}

// All stories of exactly `length` operations; shorter ones are beginnings of these.
void play_all(const World& world, std::size_t length) {
  TestDevice device;
  const auto pool = make_pool(device, world);
  const Bytes empty = pool->used();
  std::vector<std::size_t> choices(length, 0);
  for (;;) {
    const std::string wrong = play(pool, world, choices, StateDriver::Exhaustion::kImpossible);
    ASSERT_EQ(wrong, "") << story_of(world.operations, choices);
    ASSERT_EQ(pool->used(), empty) << "a leak after " << story_of(world.operations, choices);
    std::size_t digit = 0;
    while (digit < length && ++choices[digit] == world.operations.size()) choices[digit++] = 0;
    if (digit == length) return;
  }
}

void play_some(const World& world, StateDriver::Exhaustion exhaustion) {
  const auto choices = *rc::gen::container<std::vector<std::size_t>>(
      rc::gen::inRange<std::size_t>(0, world.operations.size()));
  TestDevice device;
  const auto pool = make_pool(device, world);
  const Bytes empty = pool->used();
  const std::string wrong = play(pool, world, choices, exhaustion);
  if (!wrong.empty()) RC_FAIL(wrong + ": " + story_of(world.operations, choices));
  RC_ASSERT(pool->used() == empty);
}

TEST(SequenceModel, EveryStoryOfFourOperationsInASmallWorld) { play_all(basic_world(2, 7), 4); }

TEST(SequenceModel, EveryStoryOfFourOperationsWithFourPositionsAPage) {
  play_all(basic_world(4, 6), 4);
}

TEST(SequenceModel, EveryStoryOfFourOperationsInAContextOfOnePage) {
  play_all(basic_world(8, 5), 4);
}

TEST(SequenceModel, EveryStoryOfFourOperationsWithTwoPositionsToTakeBack) {
  play_all(rollback_world(2, 11, 2), 4);
}

// Rings, windows and groups of 2 to 4 positions with compressed rows of ratio 2 and 4.
World small_world(std::int64_t window, std::int64_t ratio) {
  static constexpr std::array kFew = {kTakingBack[0], kTakingBack[2],  kTakingBack[5],
                                      kTakingBack[9], kTakingBack[10], kTakingBack[11],
                                      kTakingBack[12]};
  World world = rollback_world(4, 9, 1);
  world.operations = kFew;
  auto& layers = world.layout.layers;
  layers[1].components[0].window = Tokens(window);
  layers[1].components[1].ratio = ratio;
  layers[3].components[0].window = Tokens(window);
  layers[3].components[1].window = Tokens(window);
  layers[4].components[1].window = Tokens(window);
  layers[4].components[1].group = Tokens(window);
  return world;
}

TEST(SequenceModel, EveryStoryOfSixOperationsInAWorldOfWindowThreeAndRatioTwo) {
  play_all(small_world(3, 2), 6);
}

TEST(SequenceModel, EveryStoryOfFiveOperationsInWorldsOfWindowsTwoToFour) {
  for (const std::int64_t window : {2, 3, 4}) {
    for (const std::int64_t ratio : {1, 2, 4}) play_all(small_world(window, ratio), 5);
  }
}

TEST(SequenceModel, EveryStoryOfFourShiftsAndSteps) { play_all(shift_world(4, 12), 4); }

RC_GTEST_PROP(SequenceModel, LongStories, ()) {
  const auto page = *rc::gen::element(2, 4, 8, 16);
  const auto context = *rc::gen::inRange(1, 40);
  play_some(basic_world(page, context), StateDriver::Exhaustion::kImpossible);
}

RC_GTEST_PROP(SequenceModel, LongStoriesWithPositionsTakenBack, ()) {
  const auto page = *rc::gen::element(2, 4, 8, 16);
  const auto context = *rc::gen::inRange(1, 40);
  const auto max_rollback = *rc::gen::inRange(0, 5);
  play_some(rollback_world(page, context, max_rollback), StateDriver::Exhaustion::kImpossible);
}

RC_GTEST_PROP(SequenceModel, LongStoriesWithShifts, ()) {
  const auto page = *rc::gen::element(1, 2, 3, 4, 8);
  const auto context = *rc::gen::inRange(1, 40);
  play_some(shift_world(page, context), StateDriver::Exhaustion::kImpossible);
}

// A pool for two sequences and no snapshot: steps fail for lack of pages and change nothing.
RC_GTEST_PROP(SequenceModel, LongStoriesInAPoolThatIsTooSmall, ()) {
  World world = *rc::gen::element(basic_world(4, 9), rollback_world(4, 9, 2), shift_world(4, 9));
  world.request.n_snapshots = 0;
  play_some(world, StateDriver::Exhaustion::kAllowed);
}

}  // namespace
}  // namespace kvant::state
