// Rings and compressor states as DeepSeek-V4 uses them: slots, live rows, dead bytes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kvant/state/declarations.h"
#include "kvant/state/live.h"
#include "kvant/state/sequence.h"
#include "kvant/state/span.h"
#include "tests/support/state_driver.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

using test::StateDriver;
using test::TestDevice;

DeepSeekV4StateShape tiny() {
  return {.n_layers = Layers(3),
          .compress_ratios = {0, 4, 128},
          .head_dim = Elements(4),
          .index_head_dim = Elements(2)};
}

Plan tiny_plan(std::int64_t context, std::int64_t max_rollback = 0) {
  return plan_deepseek_v4(tiny(), {.context = Tokens(context),
                                   .n_sequences = 2,
                                   .n_snapshots = 4,
                                   .max_rollback = Tokens(max_rollback)})
      .value();
}

// Steps of any length over several laps of the ring, as the reference model has them: with bytes
// that are NaN wherever nothing was written, so that a dead byte that is read would show.
class RingSteps : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(RingSteps, LeaveTheLiveRowsOfEveryPosition) {
  for (const std::int64_t max_rollback : {0, 1, 7, 130}) {
    TestDevice device;
    StateDriver driver(PagePool::create(device, tiny_plan(600, max_rollback)).value(), Tokens(600),
                       StateDriver::Exhaustion::kImpossible);
    for (std::int64_t position = 0; position + GetParam() <= 600; position += GetParam()) {
      ASSERT_EQ(driver.step(GetParam()), "");
      if (position % 5 == 0) {
        ASSERT_EQ(driver.snapshot(), "");
      }
      ASSERT_EQ(driver.compare(), "") << position;
      if (position % 96 == 0) {
        ASSERT_EQ(driver.restore(), "");  // of blocks whose dead bytes were never copied
        ASSERT_EQ(driver.compare(), "") << position;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, RingSteps, ::testing::Values(1, 3, 4, 127, 128, 129, 300, 600));

TEST(Ring, SlotsAreThoseOfTheSpanPlanner) {
  TestDevice device;
  const auto pool = PagePool::create(device, tiny_plan(2000)).value();
  Sequence sequence = Sequence::create(pool, Tokens(2000)).value();
  for (const std::int64_t n : {1, 126, 2, 127, 128, 129, 5, 300}) {
    const Span span = plan_span(sequence.layout(), step_state_of(sequence), Tokens(n)).value();
    const Position start = sequence.position();
    ASSERT_TRUE(sequence.prepare(Tokens(n)));
    const auto slots = sequence.ring_slots(LayerIndex(0), ComponentKind::kWindowKv).value();
    EXPECT_EQ(slots.first_row, start.value() + span.layers[0].window_source_start);
    EXPECT_EQ(slots.extents.front().first_row, span.layers[0].window_write_start.value());
    EXPECT_EQ(test::count_rows(slots), span.layers[0].window_write_count);
    EXPECT_LE(slots.extents.size(), 2u);
    const auto held = sequence.rows(LayerIndex(0), ComponentKind::kWindowKv).value();
    EXPECT_LE(held.extents.size(), 2u);
    EXPECT_EQ(held.first_row + test::count_rows(held), start.value());
    ASSERT_TRUE(sequence.commit(start, Tokens(n)));
  }
}

TEST(Ring, AComponentThatALayerLacksIsNamed) {
  TestDevice device;
  const auto pool = PagePool::create(device, tiny_plan(20)).value();
  Sequence sequence = Sequence::create(pool, Tokens(20)).value();
  ASSERT_TRUE(sequence.prepare(Tokens(1)));
  for (const auto& answer : {sequence.rows(LayerIndex(0), ComponentKind::kIndexerKv),
                             sequence.ring_slots(LayerIndex(1), ComponentKind::kCompressedKv),
                             sequence.rows(LayerIndex(9), ComponentKind::kWindowKv)}) {
    EXPECT_EQ(answer.error().code, ErrorCode::kComponentMissing);
  }
  const Error error = sequence.recurrent(LayerIndex(2), ComponentKind::kMainKvState).error();
  EXPECT_EQ(error.layer, 2);
  EXPECT_EQ(error.component, ComponentKind::kMainKvState);
}

// By hand from "live part of the state": Flash has 2 layers without compression, 21 of ratio 4 and
// 20 of ratio 128. The published sizes count a ring's slot that waits to be overwritten as live.
TEST(LiveBytes, AreTheAnchorSizesOfThePublishedModels) {
  const auto check = [](std::int64_t n_plain, std::int64_t n_four, std::int64_t n_heavy,
                        std::int64_t position, std::int64_t expected) {
    DeepSeekV4StateShape shape;
    shape.compress_ratios.assign(static_cast<std::size_t>(n_plain), 0);
    for (std::int64_t i = 0; i < n_four; ++i) shape.compress_ratios.push_back(4);
    for (std::int64_t i = 0; i < n_heavy; ++i) shape.compress_ratios.push_back(128);
    shape.n_layers = Layers(n_plain + n_four + n_heavy);
    const Plan plan = plan_deepseek_v4(shape, {.context = Tokens(position)}).value();
    const std::int64_t waiting = position >= 128 ? shape.n_layers.value() * 512 * 2 : 0;
    EXPECT_EQ(live_bytes(plan, Position(position)).value() + waiting, expected) << position;
  };
  check(2, 21, 20, 128, 6946816);
  check(2, 21, 20, 1024, 13111296);
  check(2, 21, 20, 4095, 45248256);
  check(2, 21, 20, 4096, 34246656);
  check(2, 21, 20, 131072, 907841536);
  check(0, 30, 31, 128, 9870336);
  check(0, 30, 31, 4096, 48947200);
}

TEST(LiveBytes, NeverExceedWhatThePlanCounts) {
  const Plan plan = tiny_plan(300);
  for (std::int64_t p = 0; p <= 300; ++p) {
    EXPECT_LE(live_bytes(plan, Position(p)), plan.logical_bytes) << p;
  }
  EXPECT_EQ(live_bytes(plan, Position(0)), Bytes(0));
}

}  // namespace
}  // namespace kvant::state
