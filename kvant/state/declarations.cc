#include "kvant/state/declarations.h"

#include <initializer_list>
#include <limits>
#include <optional>
#include <utility>

#include "kvant/base/checked.h"

namespace kvant::state {
namespace {

// A product that does not fit becomes 0, which Layout::validate refuses.
std::int64_t product_or_zero(std::int64_t a, std::int64_t b) {
  return checked_mul(a, b).value_or(0);
}

void declare_keys_and_values(LayerSpec& layer, const ComponentSpec& keys, codec::Kind values) {
  layer.components.push_back(keys);
  layer.components.push_back(keys);
  layer.components.back().kind = ComponentKind::kValues;
  layer.components.back().codec = values;
}

// One half of a compressor's state; both halves have the same shape.
struct CompressorHalf {
  ComponentKind kind;
  float initial_value;
};

// Ratio 4 pools the first halves of the group before with the second halves of the current one, so
// it keeps two groups of rows twice as wide, of the older one the first halves.
void declare_compressor(LayerSpec& layer, std::int64_t ratio, Elements width,
                        std::initializer_list<CompressorHalf> halves) {
  const std::int64_t overlap = ratio == 4 ? 2 : 1;
  for (const CompressorHalf& half : halves) {
    layer.components.push_back({.kind = half.kind,
                                .discipline = Discipline::kRing,
                                .codec = codec::Kind::kF32,
                                .n_heads = Heads(1),
                                .row_width = Elements(product_or_zero(overlap, width.value())),
                                .window = Tokens(overlap * ratio),
                                .group = Tokens(ratio),
                                .overlap_width = overlap == 2 ? width : Elements(0),
                                .initial_value = half.initial_value});
  }
}

LayerSpec deepseek_v4_layer(const DeepSeekV4StateShape& shape, std::int64_t ratio) {
  constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();
  LayerSpec layer;
  layer.components.push_back({.kind = ComponentKind::kWindowKv,
                              .discipline = Discipline::kRing,
                              .codec = shape.rows,
                              .n_heads = Heads(1),
                              .row_width = shape.head_dim,
                              .window = shape.window});
  const auto compressed = [&](ComponentKind kind, Elements width) {
    layer.components.push_back({.kind = kind,
                                .codec = shape.rows,
                                .n_heads = Heads(1),
                                .row_width = width,
                                .ratio = ratio});
  };
  if (ratio > 0) compressed(ComponentKind::kCompressedKv, shape.head_dim);
  if (ratio == 4) compressed(ComponentKind::kIndexerKv, shape.index_head_dim);
  if (ratio > 0) {
    declare_compressor(
        layer, ratio, shape.head_dim,
        {{ComponentKind::kMainKvState, 0.0F}, {ComponentKind::kMainScoreState, kNegativeInfinity}});
  }
  if (ratio == 4) {
    declare_compressor(layer, ratio, shape.index_head_dim,
                       {{ComponentKind::kIndexerKvState, 0.0F},
                        {ComponentKind::kIndexerScoreState, kNegativeInfinity}});
  }
  return layer;
}

}  // namespace

Layout lfm2_layout(const Lfm2StateShape& shape) {
  Layout layout{.layers = {}, .page_positions = shape.page_positions};
  layout.layers.reserve(shape.kv_heads.size());
  for (const Heads kv_heads : shape.kv_heads) {
    LayerSpec layer;
    if (kv_heads == Heads(0)) {
      layer.components.push_back({.kind = ComponentKind::kConvState,
                                  .discipline = Discipline::kRecurrent,
                                  .n_rows = Rows(shape.conv_width - 1),
                                  .width = shape.hidden_size});
    } else {
      declare_keys_and_values(layer,
                              {.kind = ComponentKind::kKeys,
                               .codec = shape.keys,
                               .n_heads = kv_heads,
                               .row_width = shape.head_dim},
                              shape.values);
    }
    layout.layers.push_back(std::move(layer));
  }
  return layout;
}

Layout gqa_layout(const GqaStateShape& shape) {
  Layout layout{.layers = {}, .page_positions = shape.page_positions};
  layout.layers.resize(shape.kv_heads.size());
  for (std::size_t i = 0; i < shape.kv_heads.size(); ++i) {
    const Tokens window = i < shape.windows.size() ? shape.windows[i] : Tokens(0);
    const bool windowed = window != Tokens(0);
    declare_keys_and_values(
        layout.layers[i],
        {.kind = ComponentKind::kKeys,
         .discipline = windowed ? Discipline::kWindowedAppend : Discipline::kAppend,
         .codec = shape.keys,
         .n_heads = shape.kv_heads[i],
         .row_width = shape.head_dim,
         .window = window},
        shape.values);
  }
  return layout;
}

Layout mamba2_layout(const Mamba2StateShape& shape) {
  const std::int64_t channels = product_or_zero(shape.n_ssm_heads, shape.ssm_head_dim);
  const std::int64_t shared =
      product_or_zero(product_or_zero(2, shape.n_groups), shape.state_size.value());
  const std::int64_t conv_channels = checked_add(channels, shared).value_or(0);
  Layout layout;
  for (Layers i{0}; i < shape.n_layers; i += Layers(1)) {
    layout.layers.push_back({{{.kind = ComponentKind::kConvState,
                               .discipline = Discipline::kRecurrent,
                               .n_rows = Rows(shape.conv_width - 1),
                               .width = Elements(conv_channels)},
                              {.kind = ComponentKind::kRecurrentState,
                               .discipline = Discipline::kRecurrent,
                               .n_rows = Rows(channels),
                               .width = shape.state_size}}});
  }
  return layout;
}

Result<DeepSeekV4Declaration> deepseek_v4_layout(const DeepSeekV4StateShape& shape) {
  if (shape.window.value() < 1 || shape.window.value() > Layout::kMaxRingPositions) {
    return Error{.code = ErrorCode::kSlidingWindow,
                 .actual = static_cast<std::uint64_t>(shape.window.value()),
                 .expected = Layout::kMaxRingPositions};
  }
  const auto n_ratios = static_cast<std::int64_t>(shape.compress_ratios.size());
  if (n_ratios < shape.n_layers.value()) {
    return Error{.code = ErrorCode::kLayerCount,
                 .actual = static_cast<std::uint64_t>(n_ratios),
                 .expected = static_cast<std::uint64_t>(shape.n_layers.value())};
  }
  DeepSeekV4Declaration declaration;
  declaration.layout.page_positions = shape.page_positions;
  declaration.n_ignored_ratios = n_ratios - shape.n_layers.value();
  for (std::int64_t layer = 0; layer < shape.n_layers.value(); ++layer) {
    const std::int64_t ratio = shape.compress_ratios[static_cast<std::size_t>(layer)];
    if (ratio != 0 && ratio != 4 && ratio != 128) {
      return Error{.code = ErrorCode::kCompressionRatio,
                   .layer = static_cast<std::int32_t>(layer),
                   .actual = static_cast<std::uint64_t>(ratio)};
    }
    declaration.layout.layers.push_back(deepseek_v4_layer(shape, ratio));
  }
  return declaration;
}

Result<Plan> plan_deepseek_v4(const DeepSeekV4StateShape& shape, const PlanRequest& request) {
  if (request.context.value() < 1) return Error{.code = ErrorCode::kEmptyContext};
  if (request.context > shape.max_positions) {
    return Error{.code = ErrorCode::kContextBound,
                 .actual = static_cast<std::uint64_t>(request.context.value()),
                 .expected = static_cast<std::uint64_t>(shape.max_positions.value())};
  }
  const DeepSeekV4Declaration declaration = KVANT_TRY(deepseek_v4_layout(shape));
  Result<Plan> plan = make_plan(declaration.layout, request);
  if (plan || plan.error().code != ErrorCode::kByteOverflow) return plan;
  Error error = plan.error();
  const bool in_attention = error.component == ComponentKind::kWindowKv ||
                            error.component == ComponentKind::kCompressedKv;
  if (in_attention) error.component = ComponentKind::kAttentionKv;
  return error;
}

}  // namespace kvant::state
