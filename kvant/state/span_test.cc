#include "kvant/state/span.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "kvant/state/declarations.h"
#include "kvant/state/sequence.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

Layout layout_of(std::vector<std::int64_t> ratios, std::int64_t window = 128) {
  const Layers n_layers(static_cast<std::int64_t>(ratios.size()));
  return deepseek_v4_layout(
             {.n_layers = n_layers, .compress_ratios = ratios, .window = Tokens(window)})
      .value()
      .layout;
}

StepState at(std::int64_t next, std::int64_t capacity) {
  return {.next = Position(next), .capacity = Tokens(capacity)};
}

RowSpan rows(std::int64_t write_start, std::int64_t count, std::int64_t valid_after) {
  return {.write_start = write_start, .count = count, .valid_after = valid_after};
}

TEST(NextStep, ARowIsWrittenByThePositionThatCompletesIt) {
  const Layout layout = layout_of({4, 128});
  const NextStep third = plan_next_step(layout, at(3, 128)).value();
  ASSERT_EQ(third.layers.size(), 2u);
  EXPECT_EQ(third.position, Position(3));
  EXPECT_EQ(third.layers[0].compressed_write_row, 0);
  EXPECT_EQ(third.layers[0].indexer_write_row, 0);
  EXPECT_EQ(third.layers[1].compressed_write_row, std::nullopt);
  const NextStep fourth = plan_next_step(layout, at(4, 128)).value();
  EXPECT_EQ(fourth.layers[0].compressed_valid_after, 1);
  EXPECT_EQ(fourth.layers[0].compressed_write_row, std::nullopt);
  EXPECT_EQ(fourth.layers[0].indexer_valid_after, 1);
  const NextStep last = plan_next_step(layout, at(127, 128)).value();
  EXPECT_EQ(last.layers[0].compressed_write_row, 31);
  EXPECT_EQ(last.layers[1].compressed_write_row, 0);
  EXPECT_EQ(last.layers[1].indexer_write_row, std::nullopt);
  EXPECT_EQ(last.layers[1].indexer_valid_after, 0);
}

TEST(NextStep, TheWindowHoldsThePositionItselfAnd127Before) {
  const Layout layout = layout_of({0});
  const auto step = [&](std::int64_t next) {
    return plan_next_step(layout, at(next, 1000)).value().layers[0];
  };
  EXPECT_EQ(step(0), (LayerStep{.layer = LayerIndex(0),
                                .window_write_slot = Slot(0),
                                .window_valid_after = 1,
                                .window_start = Position(0),
                                .compressed_write_row = {},
                                .indexer_write_row = {}}));
  EXPECT_EQ(step(127).window_start, Position(0));
  EXPECT_EQ(step(127).window_valid_after, 128);
  EXPECT_EQ(step(128).window_write_slot, Slot(0));
  EXPECT_EQ(step(128).window_start, Position(1));
  EXPECT_EQ(step(129).window_start, Position(2));
  EXPECT_EQ(step(129).window_valid_after, 128);
}

TEST(NextStep, AFullOrPoisonedSequenceHasNone) {
  const Layout layout = layout_of({4, 128});
  EXPECT_EQ(plan_next_step(layout, at(128, 128)).error(),
            (Error{.code = ErrorCode::kContextExhausted, .actual = 128, .expected = 128}));
  StepState state = at(128, 128);
  state.poisoned = true;
  EXPECT_EQ(plan_next_step(layout, state).error().code, ErrorCode::kPoisoned);
}

TEST(Span, FromTheStartCountsWholeGroups) {
  const Layout layout = layout_of({4, 128});
  const struct {
    std::int64_t n, quads, heavies;
  } cases[] = {{1, 0, 0}, {3, 0, 0}, {4, 1, 0}, {127, 31, 0}, {128, 32, 1}};
  for (const auto& [n, quads, heavies] : cases) {
    const Span span = plan_span_from_start(layout, at(0, 128), Tokens(n)).value();
    EXPECT_EQ(span.start, Position(0));
    EXPECT_EQ(span.count, Tokens(n));
    EXPECT_EQ(span.layers[0].compressed, rows(0, quads, quads)) << n;
    EXPECT_EQ(span.layers[0].indexer, rows(0, quads, quads)) << n;
    EXPECT_EQ(span.layers[1].compressed, rows(0, heavies, heavies)) << n;
    EXPECT_EQ(span.layers[1].indexer, RowSpan{}) << n;
    EXPECT_EQ(span.layers[1].layer, LayerIndex(1));
  }
}

TEST(Span, CrossesTheEndOfTheRingAndOfGroups) {
  const Layout layout = layout_of({4, 128});
  const Span two = plan_span(layout, at(127, 512), Tokens(2)).value();
  EXPECT_EQ(two.layers[0], (LayerSpan{.layer = LayerIndex(0),
                                      .window_source_start = 0,
                                      .window_write_start = Slot(127),
                                      .window_write_count = 2,
                                      .window_valid_after = 128,
                                      .compressed = rows(31, 1, 32),
                                      .indexer = rows(31, 1, 32)}));
  EXPECT_EQ(two.layers[1].compressed, rows(0, 1, 1));
  const Span full = plan_span(layout, at(129, 512), Tokens(128)).value();
  EXPECT_EQ(full.layers[0].window_source_start, 0);
  EXPECT_EQ(full.layers[0].window_write_start, Slot(1));
  EXPECT_EQ(full.layers[0].window_write_count, 128);
  EXPECT_EQ(full.layers[0].compressed, rows(32, 32, 64));
  EXPECT_EQ(full.layers[1].compressed, rows(1, 1, 2));
}

TEST(Span, LongerThanTheWindowWritesItsLastPositionsOnly) {
  const Layout layout = layout_of({4, 128});
  const Span longer = plan_span(layout, at(129, 512), Tokens(129)).value();
  EXPECT_EQ(longer.layers[0].window_source_start, 1);
  EXPECT_EQ(longer.layers[0].window_write_start, Slot(2));
  EXPECT_EQ(longer.layers[0].window_write_count, 128);
  EXPECT_EQ(longer.layers[0].compressed, rows(32, 32, 64));
  EXPECT_EQ(longer.layers[1].compressed, rows(1, 1, 2));
  const Span prompt = plan_span(layout, at(0, 4096), Tokens(2048)).value();
  EXPECT_EQ(prompt.layers[0].window_source_start, 1920);
  EXPECT_EQ(prompt.layers[0].window_write_start, Slot(0));
  EXPECT_EQ(prompt.layers[0].window_write_count, 128);
}

TEST(Span, RefusalsComeInOrder) {
  const Layout layout = layout_of({4, 128});
  StepState state = at(5, 128);
  state.poisoned = true;
  EXPECT_EQ(plan_span(layout, state, Tokens(0)).error().code, ErrorCode::kPoisoned);
  EXPECT_EQ(plan_span_from_start(layout, state, Tokens(0)).error(),
            (Error{.code = ErrorCode::kPrefillNotEmpty, .actual = 5}));
  EXPECT_EQ(plan_span(layout, at(5, 128), Tokens(0)).error().code, ErrorCode::kEmptyPrefill);
  EXPECT_EQ(plan_span(layout, at(0, 128), Tokens(129)).error(),
            (Error{.code = ErrorCode::kContextBound, .actual = 129, .expected = 128}));
  const Tokens huge(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(plan_span(layout, at(1, 128), huge).error(),
            (Error{.code = ErrorCode::kContextBound,
                   .actual = std::numeric_limits<std::uint64_t>::max(),
                   .expected = 128}));
}

TEST(Span, LayersWithoutRingsOrGroupsHaveNothing) {
  const Span span = plan_span(test::mixed_layout(4), at(0, 10), Tokens(5)).value();
  ASSERT_EQ(span.layers.size(), 4u);
  EXPECT_EQ(span.layers[0], LayerSpan{.layer = LayerIndex(0)});
  EXPECT_EQ(span.layers[3].compressed, rows(0, 2, 2));
  EXPECT_EQ(plan_next_step(test::mixed_layout(4), at(0, 10))->layers[0].window_write_slot,
            std::nullopt);
}

TEST(Span, StartsWhereASequenceStands) {
  test::TestDevice device;
  const Layout layout = test::mixed_layout(4);
  const auto pool =
      PagePool::create(device, make_plan(layout, {.context = Tokens(20)}).value()).value();
  Sequence sequence = Sequence::create(pool, Tokens(15)).value();
  ASSERT_TRUE(sequence.prepare(Tokens(3)));
  ASSERT_TRUE(sequence.commit(Position(0), Tokens(3)));
  EXPECT_EQ(step_state_of(sequence).next, Position(3));
  EXPECT_EQ(step_state_of(sequence).capacity, Tokens(15));
  ASSERT_TRUE(sequence.prepare(Tokens(1)));
  sequence.poison();
  EXPECT_TRUE(step_state_of(sequence).poisoned);
}

// Which position each slot of a ring holds, and what completes each row, kept position by position.
struct BruteForce {
  std::vector<std::int64_t> ring;  // [window], -1: none
  std::vector<std::int64_t> completed_by;

  void add(std::int64_t position, std::int64_t ratio) {
    ring[static_cast<std::size_t>(position) % ring.size()] = position;
    if ((position + 1) % ratio == 0) completed_by.push_back(position);
  }
};

// Does to a ring and to rows what a span says.
void carry_out(const LayerSpan& span, std::int64_t start, std::int64_t n, std::int64_t ratio,
               BruteForce& state) {
  for (std::int64_t i = 0; i < span.window_write_count; ++i) {
    const auto slot = static_cast<std::size_t>(span.window_write_start.value() + i);
    state.ring[slot % state.ring.size()] = start + span.window_source_start + i;
  }
  EXPECT_EQ(span.window_source_start + span.window_write_count, n);
  EXPECT_EQ(span.compressed.write_start, static_cast<std::int64_t>(state.completed_by.size()));
  for (std::int64_t row = 0; row < span.compressed.count; ++row) {
    state.completed_by.push_back((span.compressed.write_start + row + 1) * ratio - 1);
  }
  EXPECT_EQ(span.compressed.valid_after, static_cast<std::int64_t>(state.completed_by.size()));
  EXPECT_EQ(span.indexer, span.compressed);
}

TEST(Span, EveryPairOfSpansInSmallWindowsDoesWhatPositionsOneByOneDo) {
  constexpr std::int64_t kRatio = 4;
  for (const std::int64_t window : {1, 2, 3, 4, 5, 7}) {
    const Layout layout = layout_of({kRatio}, window);
    for (std::int64_t first = 1; first <= 18; ++first) {
      for (std::int64_t second = 1; second <= 18; ++second) {
        const std::vector<std::int64_t> none(static_cast<std::size_t>(window), -1);
        BruteForce spans{.ring = none, .completed_by = {}};
        BruteForce singles = spans;
        for (std::int64_t p = 0; p < first + second; ++p) singles.add(p, kRatio);
        const Span one = plan_span(layout, at(0, 36), Tokens(first)).value();
        carry_out(one.layers[0], 0, first, kRatio, spans);
        const Span two = plan_span(layout, at(first, 36), Tokens(second)).value();
        carry_out(two.layers[0], first, second, kRatio, spans);
        EXPECT_EQ(spans.ring, singles.ring) << window << ": " << first << " + " << second;
        EXPECT_EQ(spans.completed_by, singles.completed_by);
        const auto held = std::ranges::count_if(spans.ring, [](auto p) { return p >= 0; });
        EXPECT_EQ(two.layers[0].window_valid_after, held);
      }
    }
  }
}

}  // namespace
}  // namespace kvant::state
