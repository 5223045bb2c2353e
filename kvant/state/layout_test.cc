#include "kvant/state/layout.h"

#include <gtest/gtest.h>

#include <limits>

#include "kvant/state/declarations.h"
#include "tests/support/state_worlds.h"

namespace kvant::state {
namespace {

using test::append_spec;
using test::recurrent_spec;
using enum ComponentKind;

// A valid layer, then the component under test.
Layout with(const ComponentSpec& spec, std::int64_t page_positions = 4) {
  return {.layers = {{{recurrent_spec(kConvState, 1, 1, 0.0F)}}, {{spec}}},
          .page_positions = Tokens(page_positions)};
}

void expect_refused(const Layout& layout, ComponentKind kind, std::uint64_t actual,
                    std::uint64_t expected) {
  const Status status = layout.validate();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kLayoutInvalid);
  EXPECT_EQ(status.error().layer, 1);
  EXPECT_EQ(status.error().component, kind);
  EXPECT_EQ(status.error().actual, actual);
  EXPECT_EQ(status.error().expected, expected);
}

TEST(Layout, SmallAndRealPageSizesAreAccepted) {
  for (const std::int64_t page : {1, 2, 16, 127, 128}) {
    EXPECT_TRUE(with(append_spec(kKeys, codec::Kind::kF16, 8, 64), page).validate()) << page;
  }
  for (const std::int64_t page : {-1, 0, 129}) {
    const Error error = with(append_spec(kKeys, codec::Kind::kF16, 8, 64), page).validate().error();
    EXPECT_EQ(error.code, ErrorCode::kLayoutInvalid);
    EXPECT_EQ(error.layer, -1);
    EXPECT_EQ(error.actual, static_cast<std::uint64_t>(page));
    EXPECT_EQ(error.expected, 128u);
  }
}

TEST(Layout, EveryBadNumberIsRefusedByLayerAndKind) {
  expect_refused(with(append_spec(kKeys, codec::Kind::kF32, 0, 4)), kKeys, 0, 1);
  expect_refused(with(append_spec(kValues, codec::Kind::kF32, 2, 0)), kValues, 0, 1);
  expect_refused(with(append_spec(kKeys, codec::Kind::kF32, 2, 4, 0)), kKeys, 0, 1);
  expect_refused(with(append_spec(kKeys, codec::Kind::kF32, 2, 4, 3)), kKeys, 3, 4);
  expect_refused(with(append_spec(kKeys, codec::Kind::kF32, 2, 4, 8)), kKeys, 8, 4);
  expect_refused(with(recurrent_spec(kMainKvState, 0, 4, 0.0F)), kMainKvState, 0, 1);
  expect_refused(with(recurrent_spec(kMainKvState, 1, -2, 0.0F)), kMainKvState,
                 static_cast<std::uint64_t>(-2), 1);
  expect_refused(with(recurrent_spec(kMainKvState, 1, 1, std::numeric_limits<float>::quiet_NaN())),
                 kMainKvState, 0, 0);
}

TEST(Layout, AWindowIsWhereTheDisciplineHasOne) {
  using enum Discipline;
  EXPECT_TRUE(with(test::windowed_spec(kWindowKv, kRing, 1)).validate());
  EXPECT_TRUE(with(test::windowed_spec(kWindowKv, kRing, 128)).validate());
  EXPECT_TRUE(with(test::windowed_spec(kKeys, kWindowedAppend, 1)).validate());
  EXPECT_TRUE(with(test::windowed_spec(kKeys, kWindowedAppend, 4096)).validate());
  expect_refused(with(test::windowed_spec(kWindowKv, kRing, 0)), kWindowKv, 0, 1);
  expect_refused(with(test::windowed_spec(kWindowKv, kRing, 129)), kWindowKv, 129, 128);
  expect_refused(with(test::windowed_spec(kKeys, kWindowedAppend, 0)), kKeys, 0, 1);
  expect_refused(with(test::windowed_spec(kKeys, kAppend, 5)), kKeys, 5, 0);
  ComponentSpec slow = test::windowed_spec(kWindowKv, kRing, 4);
  slow.ratio = 2;
  expect_refused(with(slow), kWindowKv, 2, 1);
  slow.discipline = kWindowedAppend;
  expect_refused(with(slow), kWindowKv, 2, 1);
  ComponentSpec block = recurrent_spec(kConvState, 1, 1, 0.0F);
  block.window = Tokens(3);
  expect_refused(with(block), kConvState, 3, 0);
  block.window = Tokens(0);
  block.discipline = static_cast<Discipline>(9);
  EXPECT_EQ(with(block).validate().error().code, ErrorCode::kUnsupported);
}

TEST(Layout, KindsThatAreNoLayerMemoryAreRefused) {
  expect_refused(with(append_spec(kNone, codec::Kind::kF32, 1, 1)), kNone, 0, 0);
  expect_refused(with(append_spec(kWeights, codec::Kind::kF32, 1, 1)), kWeights, 13, 0);
  expect_refused(with(append_spec(kLogits, codec::Kind::kF32, 1, 1)), kLogits, 15, 0);
}

TEST(Layout, AKindTwiceInALayerIsRefused) {
  Layout layout = with(append_spec(kKeys, codec::Kind::kF32, 1, 1));
  layout.layers[1].components.push_back(append_spec(kKeys, codec::Kind::kF16, 1, 1));
  expect_refused(layout, kKeys, 2, 1);
}

TEST(Layout, WithoutLayersThereIsNothingToRemember) {
  EXPECT_EQ(Layout{}.validate().error().code, ErrorCode::kLayoutInvalid);
}

TEST(Layout, EqualityIsByBits) {
  const Layout zero = with(recurrent_spec(kConvState, 1, 1, 0.0F));
  const Layout minus_zero = with(recurrent_spec(kConvState, 1, 1, -0.0F));
  EXPECT_EQ(zero, zero);
  EXPECT_FALSE(zero == minus_zero);
  EXPECT_FALSE(zero == with(recurrent_spec(kConvState, 1, 1, 0.0F), 8));
}

TEST(Declarations, Lfm2HasKeysAndValuesWhereItAttendsAndConvRowsElsewhere) {
  const Layout layout = lfm2_layout({.kv_heads = {Heads(0), Heads(8), Heads(0)},
                                     .head_dim = Elements(64),
                                     .conv_width = 3,
                                     .hidden_size = Elements(1024),
                                     .keys = codec::Kind::kF16,
                                     .values = codec::Kind::kBf16});
  ASSERT_TRUE(layout.validate());
  ASSERT_EQ(layout.layers.size(), 3u);
  ASSERT_EQ(layout.layers[0].components.size(), 1u);
  EXPECT_EQ(layout.layers[0].components[0], recurrent_spec(kConvState, 2, 1024, 0.0F));
  ASSERT_EQ(layout.layers[1].components.size(), 2u);
  EXPECT_EQ(layout.layers[1].components[0], append_spec(kKeys, codec::Kind::kF16, 8, 64));
  EXPECT_EQ(layout.layers[1].components[1], append_spec(kValues, codec::Kind::kBf16, 8, 64));
}

TEST(Declarations, AShapeThatMakesNoSenseIsRefusedByTheLayout) {
  const Error error = lfm2_layout({.kv_heads = {Heads(2), Heads(0)},
                                   .head_dim = Elements(4),
                                   .conv_width = 1,
                                   .hidden_size = Elements(8)})
                          .validate()
                          .error();
  EXPECT_EQ(error.code, ErrorCode::kLayoutInvalid);
  EXPECT_EQ(error.layer, 1);
  EXPECT_EQ(error.component, kConvState);
}

}  // namespace
}  // namespace kvant::state
