// Context shifts: what is dropped, what stays, what is refused, and what nobody else sees.
#include "kvant/state/shift.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "kvant/kernels/dispatch.h"
#include "kvant/state/declarations.h"
#include "kvant/state/sequence.h"
#include "kvant/state/turn_keys.h"
#include "tests/support/reference_state.h"
#include "tests/support/state_driver.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

using test::StateDriver;
using test::TestDevice;

constexpr std::int64_t kPage = 128;

std::shared_ptr<PagePool> make_pool(TestDevice& device, const Layout& layout,
                                    std::int64_t context) {
  return PagePool::create(device, make_plan(layout, {.context = Tokens(context),
                                                     .n_sequences = 3,
                                                     .n_snapshots = 4,
                                                     .shifts = Shifts::kPlanned})
                                      .value())
      .value();
}

// Different KV heads a layer, a layer without memory, a convolution.
Layout lfm2_like() {
  return lfm2_layout({.kv_heads = {Heads(2), Heads(0), Heads(1)},
                      .head_dim = Elements(8),
                      .hidden_size = Elements(4),
                      .keys = codec::Kind::kF32,
                      .values = codec::Kind::kF32});
}

class ShiftSizes : public ::testing::TestWithParam<std::tuple<std::int64_t, std::int64_t>> {};

// Forked, snapshotted and taken on before and after; then twenty times in a row.
TEST_P(ShiftSizes, DropExactlyThePositionsNamedAndNothingElseOfAnybody) {
  const auto [keep, n] = GetParam();
  TestDevice device;
  StateDriver driver(make_pool(device, lfm2_like(), 600), Tokens(600),
                     StateDriver::Exhaustion::kImpossible);
  ASSERT_EQ(driver.step(400), "");
  ASSERT_EQ(driver.snapshot(), "");
  ASSERT_EQ(driver.fork(), "");
  ASSERT_EQ(driver.shift(keep, n), "");  // n of 0 is refused
  ASSERT_EQ(driver.compare(), "");
  ASSERT_EQ(driver.step(1), "");
  ASSERT_EQ(driver.step(130), "");
  ASSERT_EQ(driver.compare(), "");
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(driver.shift(keep, n), "");
    ASSERT_EQ(driver.step(n == 0 ? 1 : n), "");
    ASSERT_EQ(driver.compare(), "");
  }
  ASSERT_EQ(driver.fork(), "");  // of a shifted sequence
  driver.swap();
  ASSERT_EQ(driver.step(20), "");
  ASSERT_EQ(driver.compare(), "");
  ASSERT_EQ(driver.restore(), "");
  ASSERT_EQ(driver.compare(), "");
}

INSTANTIATE_TEST_SUITE_P(Sizes, ShiftSizes,
                         ::testing::Combine(::testing::Values(0, 1, 127, 128, 129),
                                            ::testing::Values(0, 1, 127, 128, 129)));

TEST(Shift, MayDropEverythingBehindKeepOrLeaveOnePosition) {
  TestDevice device;
  StateDriver driver(make_pool(device, lfm2_like(), 600), Tokens(600),
                     StateDriver::Exhaustion::kImpossible);
  ASSERT_EQ(driver.step(300), "");
  ASSERT_EQ(driver.shift(100, 200), "");
  ASSERT_EQ(driver.compare(), "");
  ASSERT_EQ(driver.step(150), "");
  ASSERT_EQ(driver.shift(0, 249), "");
  ASSERT_EQ(driver.compare(), "");
  ASSERT_EQ(driver.shift(0, 1), "");
  ASSERT_EQ(driver.compare(), "");
  EXPECT_EQ(driver.sequence().position(), Position(0));
  ASSERT_EQ(driver.step(600), "");
  ASSERT_EQ(driver.compare(), "");
}

// Restoring such a snapshot in another pool once gave recurrent components their initial values.
TEST(Shift, OfEverythingKeepsRecurrentComponentsInAnotherPoolToo) {
  TestDevice device;
  StateDriver driver(make_pool(device, lfm2_like(), 60), Tokens(60),
                     StateDriver::Exhaustion::kImpossible);
  ASSERT_EQ(driver.step(9), "");
  ASSERT_EQ(driver.shift(0, 9), "");
  const Snapshot snapshot = driver.sequence().snapshot().value();
  Sequence other = Sequence::create(make_pool(device, lfm2_like(), 90), Tokens(90)).value();
  ASSERT_TRUE(other.restore(snapshot));
  EXPECT_EQ(test::compare_all(other, driver.remembered()), "");
}

TEST(Shift, LeavesConvolutionsAsTheyAreAndCopiesNoRow) {
  TestDevice device;
  const auto pool = make_pool(device, lfm2_like(), 600);
  Sequence sequence = Sequence::create(pool, Tokens(600)).value();
  ASSERT_TRUE(sequence.prepare(Tokens(500)));
  ASSERT_EQ(test::write_step(sequence, {}, test::Stamps(500, 7)), "");
  ASSERT_TRUE(sequence.commit(Position(0), Tokens(500)));
  const auto before = sequence.read_recurrent(LayerIndex(1), ComponentKind::kConvState).value();
  const std::vector<float> conv(before.begin(), before.end());
  const std::int64_t copied = device.copied_bytes();
  const Bytes used = pool->used();
  ASSERT_TRUE(sequence.shift({.keep = Position(100), .n = Tokens(200)}));
  EXPECT_EQ(device.copied_bytes(), copied);
  EXPECT_LT(pool->used(), used);  // pages without rows go back
  const auto after = sequence.read_recurrent(LayerIndex(1), ComponentKind::kConvState).value();
  EXPECT_EQ(std::vector<float>(after.begin(), after.end()), conv);
  EXPECT_EQ(sequence.lineage(), Lineage::kDerived);
  ASSERT_TRUE(sequence.reset());
  EXPECT_EQ(sequence.lineage(), Lineage::kCold);
}

TEST(Shift, HolesThatMakeAPageAreClosedByCopyingOnePageOfRows) {
  TestDevice device;
  const auto pool = make_pool(device, lfm2_like(), 600);
  Sequence sequence = Sequence::create(pool, Tokens(600)).value();
  ASSERT_TRUE(sequence.prepare(Tokens(512)));
  ASSERT_EQ(test::write_step(sequence, {}, test::Stamps(512, 7)), "");
  ASSERT_TRUE(sequence.commit(Position(0), Tokens(512)));
  const std::int64_t copied = device.copied_bytes();
  // Leaves 10 rows of page 0 and 20 of page 2.
  ASSERT_TRUE(sequence.shift({.keep = Position(10), .n = Tokens(354)}));
  const auto row_bytes = 2 * (2 + 1) * 8 * 4;
  EXPECT_EQ(device.copied_bytes() - copied, 30 * row_bytes);
  EXPECT_EQ(sequence.resident_bytes(),
            pool->geometry().class_bytes(0) * 2 + pool->geometry().block_bytes);
}

TEST(Shift, RefusalsNameWhyAndChangeNothing) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  TestDevice device;
  StateDriver driver(make_pool(device, lfm2_like(), 300), Tokens(300),
                     StateDriver::Exhaustion::kImpossible);
  ASSERT_EQ(driver.step(200), "");
  const auto refusal = [&](std::int64_t keep, std::int64_t n) {
    const ShiftRequest request{.keep = Position(keep), .n = Tokens(n)};
    EXPECT_EQ(driver.sequence().can_shift(request).error(),
              driver.sequence().shift(request).error());
    return driver.sequence().shift(request).error();
  };
  EXPECT_EQ(refusal(0, 0),
            (Error{.code = ErrorCode::kInvalidArgument, .actual = 0, .expected = 1}));
  EXPECT_EQ(refusal(-1, 5).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(100, 101),
            (Error{.code = ErrorCode::kShiftRange, .actual = 201, .expected = 200}));
  EXPECT_EQ(refusal(200, 1).code, ErrorCode::kShiftRange);
  EXPECT_EQ(refusal(1, kMax).actual, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(driver.compare(), "");

  ASSERT_EQ(driver.prepare(3), "");
  EXPECT_EQ(refusal(1, 5).code, ErrorCode::kStepOpen);
  ASSERT_EQ(driver.poison(), "");
  EXPECT_EQ(refusal(1, 5).code, ErrorCode::kPoisoned);
}

TEST(Shift, NeedsAPlanForIt) {
  TestDevice device;
  const auto pool =
      PagePool::create(device, make_plan(lfm2_like(), {.context = Tokens(50)}).value()).value();
  Sequence sequence = Sequence::create(pool, Tokens(50)).value();
  ASSERT_TRUE(sequence.prepare(Tokens(9)));
  ASSERT_TRUE(sequence.commit(Position(0), Tokens(9)));
  EXPECT_EQ(sequence.shift({.keep = Position(1), .n = Tokens(2)}).error().code,
            ErrorCode::kShiftNotPlanned);
}

TEST(Shift, MemoryThatIsBoundToPositionsIsRefusedByLayerAndKind) {
  using enum ComponentKind;
  auto bound = test::recurrent_spec(kRecurrentState, 1, 2, 0.0F);
  bound.bound_to_positions = true;
  const ComponentSpec components[] = {test::ring_spec(kWindowKv, codec::Kind::kF32, 4, 2),
                                      test::append_spec(kCompressedKv, codec::Kind::kF32, 1, 2, 2),
                                      bound};
  for (const ComponentSpec& spec : components) {
    const Layout layout{.layers = {{}, {{spec}}}, .page_positions = Tokens(4)};
    TestDevice device;
    const auto pool = make_pool(device, layout, 20);
    Sequence sequence = Sequence::create(pool, Tokens(20)).value();
    ASSERT_TRUE(sequence.prepare(Tokens(9)));
    ASSERT_TRUE(sequence.commit(Position(0), Tokens(9)));
    const Error error = sequence.shift({.keep = Position(1), .n = Tokens(2)}).error();
    EXPECT_EQ(error.code, ErrorCode::kShiftRefused);
    EXPECT_EQ(error.layer, 1);
    EXPECT_EQ(error.component, spec.kind);
    EXPECT_FALSE(shift_refusal(shift_obstacle(layout)->spec).empty());
  }
  EXPECT_FALSE(shift_obstacle(lfm2_like()));
  EXPECT_FALSE(shift_obstacle(mamba2_layout(
      {.n_layers = Layers(1), .n_ssm_heads = 1, .ssm_head_dim = 2, .state_size = Elements(2)})));
}

TEST(Shift, AWindowWhoseRowsAreGoneIsRefused) {
  TestDevice device;
  const auto pool = make_pool(device, test::shift_layout(4, 8), 60);
  Sequence sequence = Sequence::create(pool, Tokens(60)).value();
  for (Position p{0}; p < Position(40); ++p) {
    ASSERT_TRUE(sequence.prepare(Tokens(1)));
    ASSERT_TRUE(sequence.commit(p, Tokens(1)));
  }
  // The window holds positions 32 to 39 only; after this shift it would begin among the kept ones.
  const Error error = sequence.shift({.keep = Position(6), .n = Tokens(30)}).error();
  EXPECT_EQ(error.code, ErrorCode::kShiftRowsReleased);
  EXPECT_EQ(error.layer, 3);
  EXPECT_EQ(error.expected, 3u);
  EXPECT_EQ(sequence.position(), Position(40));
  EXPECT_TRUE(sequence.shift({.keep = Position(6), .n = Tokens(20)}));
}

TEST(Shift, DeviceAndPoolFailuresOfACompactionChangeNothing) {
  std::int64_t n_failed = 0;
  for (std::int64_t call = 0;; ++call) {
    TestDevice device;
    StateDriver driver(make_pool(device, lfm2_like(), 600), Tokens(600),
                       StateDriver::Exhaustion::kImpossible);
    ASSERT_EQ(driver.step(512), "");
    device.fail_call(call, TestDevice::Failing::kFromThenOn);
    const Status done = driver.sequence().shift({.keep = Position(10), .n = Tokens(354)});
    const bool failed = device.n_failures() > 0;
    device.stop_failing();
    ASSERT_EQ(done.has_value(), !failed);
    if (done) break;
    ++n_failed;
    ASSERT_EQ(driver.compare(), "");
    ASSERT_EQ(driver.shift(10, 354), "");
    ASSERT_EQ(driver.compare(), "");
  }
  EXPECT_GT(n_failed, 6);
}

// A key at position p is (cos, sin) of the angle p f, so its own angle says where it stands.
TEST(TurnStoredKeys, KeysStandWhereTheShiftMovedThemAndSharersSeeNothing) {
  const auto frequencies =
      kernels::RopeFrequencies::create({.theta = 100.0, .head_dim = 4}).value();
  const Layout layout = gqa_layout({.kv_heads = {Heads(1)},
                                    .head_dim = Elements(4),
                                    .keys = codec::Kind::kF32,
                                    .values = codec::Kind::kF32,
                                    .page_positions = Tokens(16)});
  TestDevice device;
  const auto pool = make_pool(device, layout, 100);
  Sequence sequence = Sequence::create(pool, Tokens(100)).value();
  const auto write = [&](std::int64_t n) {
    const Position start = sequence.position();
    ASSERT_TRUE(sequence.prepare(Tokens(n)));
    const auto keys = sequence.rows(LayerIndex(0), ComponentKind::kKeys).value();
    test::for_each_row(keys, [&](std::int64_t row, const tensor::Extent& extent, std::int64_t at) {
      if (row < start.value()) return;
      auto* key = reinterpret_cast<float*>(keys.row_at(extent, 0, at));
      const std::int64_t stored = row - sequence.position_runs().back().delta;
      float cos[2];
      float sin[2];
      frequencies.angles(Position(stored), cos, sin);
      key[0] = cos[0], key[2] = sin[0], key[1] = cos[1], key[3] = sin[1];
    });
    ASSERT_TRUE(sequence.commit(start, Tokens(n)));
  };
  const auto largest_error = [&](const Sequence& of) {
    double error = 0.0;
    const auto keys = of.read_rows(LayerIndex(0), ComponentKind::kKeys).value();
    test::for_each_row(keys, [&](std::int64_t row, const tensor::Extent& extent, std::int64_t at) {
      const auto* key = reinterpret_cast<const float*>(keys.row_at(extent, 0, at));
      const auto stands = static_cast<double>(row - extent.position_delta);
      error = std::max({error, std::abs(key[0] - std::cos(stands)),
                        std::abs(key[1] - std::cos(stands / 10.0)),
                        std::abs(key[3] - std::sin(stands / 10.0))});
    });
    return error;
  };
  write(80);
  ASSERT_TRUE(sequence.shift({.keep = Position(3), .n = Tokens(30)}));
  write(40);
  ASSERT_TRUE(sequence.shift({.keep = Position(5), .n = Tokens(21)}));
  write(3);
  EXPECT_LT(largest_error(sequence), 1e-5);
  const Sequence fork = sequence.fork().value();
  ASSERT_TRUE(turn_stored_keys(sequence, kernels::best_table(), {.frequencies = &frequencies}));
  EXPECT_LT(largest_error(sequence), 1e-5);
  EXPECT_LT(largest_error(fork), 1e-5);
  EXPECT_EQ(sequence.position_runs().size(), 1u);
  EXPECT_EQ(sequence.position_runs().front(), PositionRun{});
  EXPECT_GT(fork.position_runs().size(), 1u);
  write(20);
  EXPECT_LT(largest_error(sequence), 1e-5);
}

TEST(TurnStoredKeys, KeysThatAreNotWholeHeadsAreRefused) {
  const auto frequencies =
      kernels::RopeFrequencies::create({.theta = 100.0, .head_dim = 4}).value();
  TestDevice device;
  const auto pool = make_pool(device, lfm2_like(), 100);
  Sequence sequence = Sequence::create(pool, Tokens(100)).value();
  const Error error =
      turn_stored_keys(sequence, kernels::best_table(), {.frequencies = &frequencies}).error();
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_EQ(error.layer, 0);
}

}  // namespace
}  // namespace kvant::state
