#include "kvant/state/plan.h"

#include <gtest/gtest.h>

#include <limits>

#include "kvant/state/declarations.h"
#include "tests/support/state_worlds.h"

namespace kvant::state {
namespace {

using test::append_spec;
using test::recurrent_spec;
using enum ComponentKind;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

// The published shape of LFM2-1.2B: 16 layers, attention at 2, 5, 8, 10, 12, 14.
Layout lfm2_1b(codec::Kind kind) {
  Lfm2StateShape shape{.kv_heads = std::vector<Heads>(16, Heads(0)),
                       .head_dim = Elements(64),
                       .conv_width = 3,
                       .hidden_size = Elements(2048),
                       .keys = kind,
                       .values = kind};
  for (const std::size_t layer : {2u, 5u, 8u, 10u, 12u, 14u}) shape.kv_heads[layer] = Heads(8);
  return lfm2_layout(shape);
}

TEST(Plan, PublishedFiguresOfLfm2AreTheLogicalBytes) {
  // 24,576 bytes a token in f32, 12,288 in f16; 163,840 bytes of short-conv rows.
  const Plan f32 = make_plan(lfm2_1b(codec::Kind::kF32), {.context = Tokens(4096)}).value();
  EXPECT_EQ(f32.logical_bytes, Bytes(4096 * 24576 + 163840));
  const Plan f16 = make_plan(lfm2_1b(codec::Kind::kF16), {.context = Tokens(32768)}).value();
  EXPECT_EQ(f16.logical_bytes, Bytes(32768LL * 12288 + 163840));
}

TEST(Plan, LogicalBytesAreExactWherePagesAreNot) {
  const Plan plan = make_plan(lfm2_1b(codec::Kind::kF16), {.context = Tokens(129)}).value();
  EXPECT_EQ(plan.logical_bytes, Bytes(129 * 12288 + 163840));
  EXPECT_EQ(plan.pages_per_sequence, Pages(2));
  EXPECT_EQ(plan.page_bytes, Bytes(2 * 128 * 12288));
  EXPECT_EQ(plan.recurrent_bytes, Bytes(2 * 163840));
  EXPECT_EQ(plan.snapshot_bytes, Bytes(0));
  EXPECT_EQ(plan.pool_bytes, Bytes(2 * 128 * 12288 + 2 * 163840));
}

TEST(Plan, EachLineSaysShapeAndTypeOfItsComponent) {
  const Plan plan = make_plan(lfm2_1b(codec::Kind::kF16), {.context = Tokens(100)}).value();
  ASSERT_EQ(plan.components.size(), 10u + 2 * 6);
  const ComponentPlan* keys = plan.find(LayerIndex(2), kKeys);
  ASSERT_NE(keys, nullptr);
  EXPECT_EQ(keys->layer, LayerIndex(2));
  EXPECT_EQ(keys->shape_text(), "[8, 100, 64]");
  EXPECT_EQ(keys->dtype, tensor::Dtype::kF16);
  EXPECT_EQ(keys->logical_bytes, Bytes(8 * 100 * 64 * 2));
  const ComponentPlan* conv = plan.find(LayerIndex(0), kConvState);
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->shape_text(), "[1, 2, 2048]");
  EXPECT_EQ(conv->discipline, Discipline::kRecurrent);
  EXPECT_EQ(conv->dtype, tensor::Dtype::kF32);
  EXPECT_EQ(plan.find(LayerIndex(0), kKeys), nullptr);
  EXPECT_EQ(plan.find(LayerIndex(16), kConvState), nullptr);
}

TEST(Plan, TotalsAreTheSumOfTheirParts) {
  for (const std::int64_t page : {2, 4, 16, 128}) {
    for (const std::int64_t context : {1, 3, 4, 127, 128, 129, 1000}) {
      const Plan plan = make_plan(test::mixed_layout(page),
                                  {.context = Tokens(context), .n_sequences = 3, .n_snapshots = 2})
                            .value();
      Bytes logical{0};
      for (const ComponentPlan& line : plan.components) {
        EXPECT_EQ(line.logical_bytes, Bytes(line.shape[0] * line.shape[1] * line.shape[2] *
                                            tensor::bytes_of(line.dtype)));
        logical += line.logical_bytes;
      }
      EXPECT_EQ(plan.logical_bytes, logical);
      // By hand: f32 group = keys 2 x page x 3 and compressed page/2 x 2; f16 group = values.
      const auto pad = [](std::int64_t bytes) { return (bytes + 63) / 64 * 64; };
      const std::int64_t pages = (context + page - 1) / page;
      const std::int64_t page_each = pad(pad(24 * page) + 4 * page) + pad(4 * page);
      const std::int64_t block = 64 + 64;
      EXPECT_EQ(plan.page_bytes, Bytes(3 * pages * page_each));
      EXPECT_EQ(plan.recurrent_bytes, Bytes(4 * block));
      EXPECT_EQ(plan.snapshot_bytes, Bytes(2 * (page_each + block)));
      EXPECT_EQ(plan.pool_bytes, plan.page_bytes + plan.recurrent_bytes + plan.snapshot_bytes);
      EXPECT_EQ(plan.total_bytes(), plan.pool_bytes + plan.table_bytes);
    }
  }
}

TEST(Geometry, ComponentsOfAPageAreDisjointAlignedAndCoverIt) {
  const Geometry geometry = make_geometry(test::mixed_layout(4)).value();
  ASSERT_EQ(geometry.groups.size(), 2u);
  std::vector<std::int64_t> end(2, 0);
  std::int64_t block_end = 0;
  for (const Placed& placed : geometry.components) {
    EXPECT_EQ(placed.offset.value() % 64, 0);
    std::int64_t& so_far =
        placed.group >= 0 ? end[static_cast<std::size_t>(placed.group)] : block_end;
    EXPECT_GE(placed.offset.value(), so_far);
    EXPECT_LT(placed.offset.value() - so_far, 64);
    so_far = placed.offset.value() + placed.bytes.value();
  }
  for (std::size_t group = 0; group < 2; ++group) {
    EXPECT_EQ(geometry.groups[group].page_bytes.value(), (end[group] + 63) / 64 * 64);
  }
  EXPECT_EQ(geometry.block_bytes.value(), (block_end + 63) / 64 * 64);
  EXPECT_EQ(geometry.groups[0].ratios, (std::vector<std::int64_t>{1, 2}));
}

TEST(Plan, RequestsThatMakeNoSenseAreRefusedInOrder) {
  const Layout layout = test::mixed_layout(4);
  EXPECT_EQ(make_plan({}, {.context = Tokens(0), .n_sequences = 0}).error().code,
            ErrorCode::kEmptyContext);
  EXPECT_EQ(make_plan(layout, {.context = Tokens(-5)}).error().code, ErrorCode::kEmptyContext);
  EXPECT_EQ(make_plan({}, {.context = Tokens(1), .n_sequences = 0}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(make_plan(layout, {.context = Tokens(1), .n_snapshots = -1}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(make_plan(layout, {.context = Tokens(1), .max_step = Tokens(0)}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(make_plan(layout, {.context = Tokens(1), .max_rollback = Tokens(-1)}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(make_plan({}, {.context = Tokens(1)}).error().code, ErrorCode::kLayoutInvalid);
}

Layout two_rows(std::int64_t width) {
  return {.layers = {{{append_spec(kCompressedKv, codec::Kind::kBf16, 1, width, 4)}},
                     {{append_spec(kCompressedKv, codec::Kind::kBf16, 1, width, 4)}}}};
}

TEST(Plan, ByteOverflowNamesTheComponentWhoseSumOverflows) {
  // Each component is a little over 2^63 bytes: one can be counted, the sum of two cannot.
  constexpr std::int64_t kU32Max = 0xFFFFFFFF;
  const Error error = make_plan(two_rows(kU32Max), {.context = Tokens(kU32Max + 513)}).error();
  EXPECT_EQ(error.code, ErrorCode::kByteOverflow);
  EXPECT_EQ(error.layer, 1);
  EXPECT_EQ(error.component, kCompressedKv);
  const Error first = make_plan(two_rows(1 << 20), {.context = Tokens(kHuge)}).error();
  EXPECT_EQ(first.code, ErrorCode::kByteOverflow);
  EXPECT_EQ(first.layer, 0);
}

TEST(Plan, APageThatCannotBeCountedIsAByteOverflowToo) {
  const Error error = make_plan(two_rows(kHuge / 2), {.context = Tokens(1)}).error();
  EXPECT_EQ(error.code, ErrorCode::kByteOverflow);
  EXPECT_EQ(error.layer, 0);
  Layout layout = two_rows(8);
  layout.layers.push_back({{recurrent_spec(kMainKvState, kHuge / 8, 4, 0.0F)}});
  const Error block = make_plan(layout, {.context = Tokens(1)}).error();
  EXPECT_EQ(block.code, ErrorCode::kByteOverflow);
  EXPECT_EQ(block.layer, 2);
  EXPECT_EQ(block.component, kMainKvState);
}

TEST(Plan, SumsOverSequencesAreCheckedToo) {
  EXPECT_EQ(make_plan(two_rows(8), {.context = Tokens(1), .n_sequences = kHuge}).error().code,
            ErrorCode::kByteOverflow);
  EXPECT_EQ(make_plan(two_rows(8), {.context = Tokens(1), .n_snapshots = kHuge}).error().code,
            ErrorCode::kByteOverflow);
}

TEST(Plan, WhatDoesNotFitTheAddressSpaceIsRefused) {
  const Error error = make_plan(two_rows(512), {.context = Tokens(std::int64_t{1} << 50)}).error();
  EXPECT_EQ(error.code, ErrorCode::kAddressSpace);
  EXPECT_GT(error.actual, std::uint64_t{1} << 46);
  const Error wide = make_plan(two_rows(std::int64_t{1} << 31), {.context = Tokens(4)}).error();
  EXPECT_EQ(wide.code, ErrorCode::kAddressSpace);
  EXPECT_EQ(wide.component, kCompressedKv);
}

TEST(LongestContext, IsTheLastOneThatFits) {
  const Layout layout = test::mixed_layout(4);
  const PlanRequest request{.n_sequences = 2, .n_snapshots = 1};
  const auto total = [&](std::int64_t context) {
    PlanRequest one = request;
    one.context = Tokens(context);
    return make_plan(layout, one).value().total_bytes();
  };
  for (std::int64_t budget = total(1).value(); budget < total(40).value(); budget += 37) {
    const Tokens found = longest_context(layout, request, Bytes(budget), Tokens(1000)).value();
    EXPECT_LE(total(found.value()).value(), budget);
    EXPECT_GT(total(found.value() + 1).value(), budget);
  }
}

TEST(LongestContext, StopsAtTheMaximumAndBeforeNumbersOverflow) {
  const Layout layout = test::mixed_layout(4);
  EXPECT_EQ(longest_context(layout, {}, Bytes(kHuge), Tokens(77)).value(), Tokens(77));
  const Tokens most = longest_context(layout, {}, Bytes(kHuge), Tokens(kHuge)).value();
  EXPECT_TRUE(make_plan(layout, {.context = most}));
  EXPECT_FALSE(make_plan(layout, {.context = most + Tokens(4)}));
}

TEST(LongestContext, SaysWhatOnePositionNeedsWhenNoneFits) {
  const Layout layout = test::mixed_layout(4);
  const Bytes least = make_plan(layout, {.context = Tokens(1)}).value().total_bytes();
  const Error error = longest_context(layout, {}, least - Bytes(1), Tokens(100)).error();
  EXPECT_EQ(error.code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(error.actual, static_cast<std::uint64_t>(least.value()));
  EXPECT_EQ(error.expected, static_cast<std::uint64_t>(least.value() - 1));
  EXPECT_EQ(longest_context(layout, {}, least, Tokens(0)).error().code, ErrorCode::kEmptyContext);
  EXPECT_EQ(longest_context({}, {}, least, Tokens(5)).error().code, ErrorCode::kLayoutInvalid);
}

TEST(MostSequences, IsTheLastNumberThatFits) {
  const Layout layout = test::mixed_layout(4);
  const PlanRequest request{.context = Tokens(9), .n_snapshots = 1};
  const auto total = [&](std::int64_t n) {
    PlanRequest one = request;
    one.n_sequences = n;
    return make_plan(layout, one).value().total_bytes();
  };
  for (std::int64_t budget = total(1).value(); budget < total(9).value(); budget += 41) {
    const std::int64_t found = most_sequences(layout, request, Bytes(budget), 100).value();
    EXPECT_LE(total(found).value(), budget);
    EXPECT_GT(total(found + 1).value(), budget);
  }
  EXPECT_EQ(most_sequences(layout, request, total(9), 5).value(), 5);
}

TEST(MostSequences, SaysWhatOneNeedsWhenNoneFits) {
  const Layout layout = test::mixed_layout(4);
  const PlanRequest request{.context = Tokens(9)};
  const Bytes least = make_plan(layout, request).value().total_bytes();
  const Error error = most_sequences(layout, request, least - Bytes(1), 7).error();
  EXPECT_EQ(error.code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(error.actual, static_cast<std::uint64_t>(least.value()));
  EXPECT_EQ(most_sequences(layout, request, least, 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(most_sequences(layout, {}, least, 7).error().code, ErrorCode::kEmptyContext);
}

}  // namespace
}  // namespace kvant::state
