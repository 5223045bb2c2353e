#include "kvant/state/declarations.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/state_worlds.h"

namespace kvant::state {
namespace {

using enum ComponentKind;
using test::append_spec;
using test::recurrent_spec;

constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();

ComponentSpec window_spec(std::int64_t width, std::int64_t window) {
  return {.kind = kWindowKv,
          .discipline = Discipline::kRing,
          .codec = codec::Kind::kBf16,
          .n_heads = Heads(1),
          .row_width = Elements(width),
          .window = Tokens(window)};
}

TEST(Gqa, ALayerWithoutWindowAppendsForEver) {
  const Layout layout = gqa_layout({.kv_heads = {Heads(8)},
                                    .head_dim = Elements(128),
                                    .keys = codec::Kind::kF16,
                                    .values = codec::Kind::kBf16});
  ASSERT_TRUE(layout.validate());
  ASSERT_EQ(layout.layers[0].components.size(), 2u);
  EXPECT_EQ(layout.layers[0].components[0], append_spec(kKeys, codec::Kind::kF16, 8, 128));
  EXPECT_EQ(layout.layers[0].components[1], append_spec(kValues, codec::Kind::kBf16, 8, 128));
}

TEST(Gqa, ALayerWithAWindowAppendsAndLetsPagesGo) {
  const Layout layout = gqa_layout(
      {.kv_heads = {Heads(8), Heads(8)}, .windows = {Tokens(4096)}, .head_dim = Elements(128)});
  ASSERT_TRUE(layout.validate());
  for (const ComponentSpec& spec : layout.layers[0].components) {
    EXPECT_EQ(spec.discipline, Discipline::kWindowedAppend);
    EXPECT_EQ(spec.window, Tokens(4096));
  }
  EXPECT_EQ(layout.layers[1].components[0].discipline, Discipline::kAppend);
}

TEST(Gqa, NumbersThatMakeNoSenseAreRefusedByTheLayout) {
  const Error no_heads =
      gqa_layout({.kv_heads = {Heads(1), Heads(0)}, .head_dim = Elements(4)}).validate().error();
  EXPECT_EQ(no_heads.code, ErrorCode::kLayoutInvalid);
  EXPECT_EQ(no_heads.layer, 1);
  EXPECT_EQ(no_heads.component, kKeys);
  const Error window =
      gqa_layout({.kv_heads = {Heads(1)}, .windows = {Tokens(-1)}, .head_dim = Elements(4)})
          .validate()
          .error();
  EXPECT_EQ(window.code, ErrorCode::kLayoutInvalid);
  EXPECT_EQ(window.expected, 1u);
}

TEST(Mamba2, ALayerIsItsConvRowsAndItsState) {
  // The 130 M model: width 768 doubled, 24 heads of 64, 128 numbers a channel.
  const Layout layout = mamba2_layout(
      {.n_layers = Layers(24), .n_ssm_heads = 24, .ssm_head_dim = 64, .state_size = Elements(128)});
  ASSERT_TRUE(layout.validate());
  ASSERT_EQ(layout.layers.size(), 24u);
  ASSERT_EQ(layout.layers[23].components.size(), 2u);
  EXPECT_EQ(layout.layers[23].components[0], recurrent_spec(kConvState, 3, 1792, 0.0F));
  EXPECT_EQ(layout.layers[23].components[1], recurrent_spec(kRecurrentState, 1536, 128, 0.0F));
}

TEST(Mamba2, ProductsThatOverflowAreRefusedByTheLayout) {
  const Layout layout = mamba2_layout({.n_layers = Layers(1),
                                       .n_ssm_heads = std::numeric_limits<std::int64_t>::max(),
                                       .ssm_head_dim = 2,
                                       .state_size = Elements(4)});
  EXPECT_EQ(layout.validate().error().code, ErrorCode::kLayoutInvalid);
}

// Ratio 4 keeps two groups of rows twice as wide, of the older one the first half.
ComponentSpec state_spec(ComponentKind kind, std::int64_t ratio, std::int64_t width,
                         float initial) {
  const std::int64_t n_groups = ratio == 4 ? 2 : 1;
  return {.kind = kind,
          .discipline = Discipline::kRing,
          .codec = codec::Kind::kF32,
          .n_heads = Heads(1),
          .row_width = Elements(width),
          .window = Tokens(n_groups * ratio),
          .group = Tokens(ratio),
          .overlap_width = Elements(ratio == 4 ? width / 2 : 0),
          .initial_value = initial};
}

TEST(DeepSeekV4, ALayerHasTheComponentsOfItsRatio) {
  const Layout layout = deepseek_v4_layout({.n_layers = Layers(3),
                                            .compress_ratios = {0, 4, 128},
                                            .head_dim = Elements(32),
                                            .index_head_dim = Elements(16)})
                            .value()
                            .layout;
  ASSERT_TRUE(layout.validate());
  const LayerSpec plain{{window_spec(32, 128)}};
  const LayerSpec sparse{
      {window_spec(32, 128), append_spec(kCompressedKv, codec::Kind::kBf16, 1, 32, 4),
       append_spec(kIndexerKv, codec::Kind::kBf16, 1, 16, 4), state_spec(kMainKvState, 4, 64, 0.0F),
       state_spec(kMainScoreState, 4, 64, kNegativeInfinity),
       state_spec(kIndexerKvState, 4, 32, 0.0F),
       state_spec(kIndexerScoreState, 4, 32, kNegativeInfinity)}};
  const LayerSpec heavy{{window_spec(32, 128),
                         append_spec(kCompressedKv, codec::Kind::kBf16, 1, 32, 128),
                         state_spec(kMainKvState, 128, 32, 0.0F),
                         state_spec(kMainScoreState, 128, 32, kNegativeInfinity)}};
  ASSERT_EQ(layout.layers.size(), 3u);
  EXPECT_EQ(layout.layers[0], plain);
  EXPECT_EQ(layout.layers[1], sparse);
  EXPECT_EQ(layout.layers[2], heavy);
}

TEST(DeepSeekV4, RatiosBeyondTheLayersAreIgnoredAndCounted) {
  // As the published configurations: one entry for a block of speculative decoding, or three. Even
  // ones that could not run.
  const DeepSeekV4Declaration one =
      deepseek_v4_layout({.n_layers = Layers(2), .compress_ratios = {0, 4, 0}}).value();
  EXPECT_EQ(one.n_ignored_ratios, 1);
  EXPECT_EQ(one.layout.layers.size(), 2u);
  const DeepSeekV4Declaration three =
      deepseek_v4_layout({.n_layers = Layers(2), .compress_ratios = {0, 4, 7, 0, 0}}).value();
  EXPECT_EQ(three.n_ignored_ratios, 3);
  EXPECT_EQ(three.layout, one.layout);
  EXPECT_EQ(
      deepseek_v4_layout({.n_layers = Layers(2), .compress_ratios = {0, 4}})->n_ignored_ratios, 0);
}

TEST(DeepSeekV4, WhatCannotRunIsRefusedInOrder) {
  DeepSeekV4StateShape shape{.n_layers = Layers(3),
                             .compress_ratios = {8, 4},
                             .window = Tokens(129),
                             .max_positions = Tokens(1000)};
  const auto refusal = [&](std::int64_t context) {
    return plan_deepseek_v4(shape, {.context = Tokens(context)}).error();
  };
  EXPECT_EQ(refusal(0), (Error{.code = ErrorCode::kEmptyContext}));
  EXPECT_EQ(refusal(1001),
            (Error{.code = ErrorCode::kContextBound, .actual = 1001, .expected = 1000}));
  EXPECT_EQ(refusal(1000),
            (Error{.code = ErrorCode::kSlidingWindow, .actual = 129, .expected = 128}));
  shape.window = Tokens(0);
  EXPECT_EQ(refusal(1000), (Error{.code = ErrorCode::kSlidingWindow, .expected = 128}));
  shape.window = Tokens(128);
  EXPECT_EQ(refusal(1000), (Error{.code = ErrorCode::kLayerCount, .actual = 2, .expected = 3}));
  shape.compress_ratios = {8, 4, 5};
  EXPECT_EQ(refusal(1000), (Error{.code = ErrorCode::kCompressionRatio, .layer = 0, .actual = 8}));
  shape.compress_ratios = {0, 4, 5};
  EXPECT_EQ(refusal(1000), (Error{.code = ErrorCode::kCompressionRatio, .layer = 2, .actual = 5}));
  shape.compress_ratios = {0, 4, 128};
  EXPECT_TRUE(plan_deepseek_v4(shape, {.context = Tokens(1000)}));
}

TEST(DeepSeekV4, AShorterWindowIsAShorterRing) {
  // hf2q 0.1.4 runs 128 only; docs/decisions/0006 says why this one is wider.
  const DeepSeekV4StateShape shape{
      .n_layers = Layers(1), .compress_ratios = {0}, .head_dim = Elements(16), .window = Tokens(8)};
  const Plan plan = plan_deepseek_v4(shape, {.context = Tokens(100)}).value();
  EXPECT_EQ(plan.logical_bytes, Bytes(8 * 16 * 2));
}

TEST(DeepSeekV4, RatiosThatDoNotDivideThePageAreRefusedByTheLayout) {
  const Error error =
      plan_deepseek_v4(
          {.n_layers = Layers(2), .compress_ratios = {4, 128}, .page_positions = Tokens(64)},
          {.context = Tokens(100)})
          .error();
  EXPECT_EQ(error.code, ErrorCode::kLayoutInvalid);
  EXPECT_EQ(error.layer, 1);
  EXPECT_EQ(error.component, kCompressedKv);
}

TEST(DeepSeekV4, ByteOverflowNamesTheBufferAsHf2qDoes) {
  constexpr std::int64_t kU32Max = 0xFFFFFFFF;
  const DeepSeekV4StateShape shape{.n_layers = Layers(2),
                                   .compress_ratios = {4, 4},
                                   .head_dim = Elements(kU32Max),
                                   .max_positions = Tokens(kU32Max)};
  const Error error = plan_deepseek_v4(shape, {.context = Tokens(kU32Max)}).error();
  EXPECT_EQ(error.code, ErrorCode::kByteOverflow);
  EXPECT_EQ(error.layer, 1);
  EXPECT_EQ(error.component, kAttentionKv);
}

}  // namespace
}  // namespace kvant::state
