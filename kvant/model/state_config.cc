#include "kvant/model/state_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "kvant/model/config_fields.h"
#include "kvant/model/json.h"
#include "kvant/model/model_file.h"

namespace kvant::model {
namespace {

using enum ErrorCode;

NamedResult<std::int64_t> read_context(const JsonObject& root) {
  return root.integer("max_position_embeddings", {.min = 1, .max = limits::kContextMax});
}

NamedStatus read_lfm2(const JsonObject& root, StateConfig& out) {
  ModelConfig config;
  KVANT_TRY(read_heads(root, config));
  KVANT_TRY(read_lfm2_layers(root, config));
  KVANT_TRY(read_lfm2_conv_width(root, config));
  KVANT_TRY(read_lfm2_context(root, config));
  state::Lfm2StateShape shape{.head_dim = Elements(config.head_dim),
                              .conv_width = config.conv_width,
                              .hidden_size = Elements(config.hidden_size)};
  for (const LayerConfig& layer : config.layers) shape.kv_heads.emplace_back(layer.n_kv_heads);
  out.context_length = config.context_length;
  out.n_layers = config.n_layers();
  out.shape = std::move(shape);
  return {};
}

// The names in layer_types by layer; empty when there is no such key.
NamedResult<std::vector<std::string_view>> read_layer_type_names(const JsonObject& root,
                                                                 std::size_t n_layers) {
  std::vector<std::string_view> names;
  const auto array = KVANT_TRY(root.find_array("layer_types"));
  if (!array) return names;
  if (array->size() != n_layers) {
    return root.bad_value("layer_types",
                          fmt::format("one entry for each of the {} layers", n_layers));
  }
  for (const JsonValue value : *array) {
    std::string_view name;
    if (value.get_string().get(name) != simdjson::SUCCESS) {
      return root.bad_value("layer_types", "an array of strings");
    }
    names.push_back(name);
  }
  return names;
}

struct TypedLayer {
  std::size_t layer;
  std::string_view type;
};

NamedError unknown_layer_type(const JsonObject& root, TypedLayer found, std::string_view known) {
  return NamedError(
      {.code = kUnsupportedModel, .layer = static_cast<std::int32_t>(found.layer)},
      fmt::format("{}: layer_types: {}, known are {}", root.where(), in_quotes(found.type), known));
}

// The window that layers without a type of their own have from `first_layer` on; 0: none.
struct WindowRule {
  std::int64_t window = 0;
  std::size_t first_layer = 0;
};

// As the models' reference code has it: Mistral's window holds for all layers and is 4096 when the
// key is absent (a null switches it off); Qwen models must switch theirs on, and it spares the
// first layers. Llama and Granite have none and ignore the key.
NamedResult<WindowRule> read_window_rule(const JsonObject& root, std::string_view model_type) {
  constexpr std::int64_t kDefaultWindow = 4096;
  constexpr std::int64_t kDefaultWindowLayers = 28;
  const bool is_qwen = model_type.starts_with("qwen");
  if (model_type != "mistral" && !is_qwen) return WindowRule{};
  if (is_qwen && !KVANT_TRY(root.find_flag("use_sliding_window")).value_or(false)) {
    return WindowRule{};
  }
  WindowRule rule;
  const auto window =
      KVANT_TRY(root.find_integer("sliding_window", {.min = 1, .max = limits::kContextMax}));
  const bool is_null = !window && root.has("sliding_window");
  rule.window = window.value_or(is_null ? 0 : kDefaultWindow);
  if (is_qwen) {
    const auto spared =
        KVANT_TRY(root.find_integer("max_window_layers", {.min = 0, .max = limits::kLayersMax}));
    rule.first_layer = static_cast<std::size_t>(spared.value_or(kDefaultWindowLayers));
  }
  return rule;
}

NamedResult<std::vector<Tokens>> read_windows(const JsonObject& root, std::string_view model_type,
                                              std::size_t n_layers) {
  const WindowRule rule = KVANT_TRY(read_window_rule(root, model_type));
  const auto names = KVANT_TRY(read_layer_type_names(root, n_layers));
  std::vector<Tokens> windows(n_layers, Tokens(0));
  for (std::size_t i = 0; i < n_layers; ++i) {
    if (names.empty()) {
      if (i >= rule.first_layer) windows[i] = Tokens(rule.window);
    } else if (names[i] == "sliding_attention") {
      if (rule.window == 0) {
        return NamedError({.code = kBadValue, .layer = static_cast<std::int32_t>(i)},
                          fmt::format("{}: layer_types has 'sliding_attention', but no"
                                      " sliding_window is in use",
                                      root.where()));
      }
      windows[i] = Tokens(rule.window);
    } else if (names[i] != "full_attention") {
      return unknown_layer_type(root, {i, names[i]}, "'full_attention' and 'sliding_attention'");
    }
  }
  return windows;
}

NamedStatus read_gqa(const JsonObject& root, StateConfig& out) {
  // Its heads are wider than hidden_size / n_heads, so the quotient would be a wrong guess.
  if (out.model_type == "qwen3" && root.find("head_dim") == nullptr) {
    return root.missing_key("head_dim");
  }
  ModelConfig config;
  KVANT_TRY(read_heads(root, config));
  out.n_layers = KVANT_TRY(read_n_layers(root));
  out.context_length = KVANT_TRY(read_context(root));
  const auto n_layers = static_cast<std::size_t>(out.n_layers);
  // The first models of these families had no KV heads of their own: every head is one.
  std::vector<std::int64_t> kv_heads(n_layers, config.n_heads);
  if (root.find("num_key_value_heads") != nullptr) {
    kv_heads = KVANT_TRY(read_kv_heads(root, n_layers));
  }
  state::GqaStateShape shape{.head_dim = Elements(config.head_dim)};
  for (std::size_t i = 0; i < n_layers; ++i) {
    KVANT_TRY(check_kv_heads(root, i, kv_heads[i], config.n_heads));
    shape.kv_heads.emplace_back(kv_heads[i]);
  }
  shape.windows = KVANT_TRY(read_windows(root, out.model_type, n_layers));
  out.shape = std::move(shape);
  return {};
}

constexpr IntegerRange kRatioRange{.min = 0, .max = std::int64_t{1} << 31};

// Newer files name each layer's kind and give the ratio of each kind beside it.
NamedResult<std::vector<std::int64_t>> ratios_of_layer_types(const JsonObject& root,
                                                             std::size_t n_layers) {
  struct Kind {
    std::string_view name;
    std::int64_t ratio;
  };
  std::array kinds = {Kind{"sliding_attention", 0}, Kind{"compressed_sparse_attention", 4},
                      Kind{"heavily_compressed_attention", 128}};
  const auto rates = KVANT_TRY(root.find_object("compress_rates"));
  if (rates) {
    for (Kind& kind : kinds) {
      const auto rate = KVANT_TRY(rates->find_integer(kind.name, kRatioRange));
      kind.ratio = rate.value_or(kind.ratio);
    }
  }
  std::vector<std::int64_t> ratios;
  const auto names = KVANT_TRY(read_layer_type_names(root, n_layers));
  for (const std::string_view name : names) {
    const auto* kind = std::ranges::find(kinds, name, &Kind::name);
    if (kind == kinds.end()) {
      return unknown_layer_type(root, {ratios.size(), name},
                                "'sliding_attention', 'compressed_sparse_attention' and"
                                " 'heavily_compressed_attention'");
    }
    ratios.push_back(kind->ratio);
  }
  return ratios;
}

// compress_ratios, else layer_types. There is no default: the reference code's would be another
// model's schedule.
NamedResult<std::vector<std::int64_t>> read_ratios(const JsonObject& root, std::size_t n_layers) {
  constexpr std::string_view kKey = "compress_ratios";
  const auto array = KVANT_TRY(root.find_array(kKey));
  if (!array && root.find("layer_types") != nullptr) return ratios_of_layer_types(root, n_layers);
  if (!array) return root.missing_key(kKey);
  const std::string where = fmt::format("{}: {}", root.where(), kKey);
  std::vector<std::int64_t> ratios;
  for (const JsonValue value : *array) {
    ratios.push_back(KVANT_TRY(checked_integer(value, where, kRatioRange)));
  }
  return ratios;
}

NamedStatus read_deepseek_v4(const JsonObject& root, StateConfig& out) {
  constexpr IntegerRange kWidths{.min = 1, .max = limits::kHeadDimMax};
  out.n_layers = KVANT_TRY(read_n_layers(root));
  out.context_length = KVANT_TRY(read_context(root));
  const auto kv_heads =
      KVANT_TRY(root.find_integer("num_key_value_heads", {.min = 1, .max = limits::kHeadsMax}));
  if (kv_heads.value_or(1) != 1) {
    return root.bad_value("num_key_value_heads", "1: all heads of this architecture share a row");
  }
  state::DeepSeekV4StateShape shape{.n_layers = Layers(out.n_layers),
                                    .max_positions = Tokens(out.context_length)};
  shape.head_dim = Elements(KVANT_TRY(root.integer("head_dim", kWidths)));
  shape.index_head_dim = Elements(KVANT_TRY(root.integer("index_head_dim", kWidths)));
  shape.window =
      Tokens(KVANT_TRY(root.integer("sliding_window", {.min = 0, .max = limits::kContextMax})));
  shape.compress_ratios = KVANT_TRY(read_ratios(root, static_cast<std::size_t>(out.n_layers)));
  out.shape = std::move(shape);
  return {};
}

struct ModelType {
  std::string_view name;
  NamedStatus (*read)(const JsonObject& root, StateConfig& out);
};
constexpr std::array kModelTypes = {
    ModelType{"lfm2", read_lfm2},   ModelType{"lfm2_moe", read_lfm2},
    ModelType{"llama", read_gqa},   ModelType{"mistral", read_gqa},
    ModelType{"qwen2", read_gqa},   ModelType{"qwen3", read_gqa},
    ModelType{"granite", read_gqa}, ModelType{"deepseek_v4", read_deepseek_v4}};

NamedResult<StateConfig> read_root(const JsonObject& root) {
  const std::string_view name = KVANT_TRY(root.text("model_type"));
  const auto* type = std::ranges::find(kModelTypes, name, &ModelType::name);
  if (type == kModelTypes.end()) {
    std::array<std::string_view, kModelTypes.size()> known;
    std::ranges::transform(kModelTypes, known.begin(), &ModelType::name);
    return NamedError({.code = kUnsupportedModel},
                      fmt::format("{}: model_type is {}, known are {}", root.where(),
                                  in_quotes(name), fmt::join(known, ", ")));
  }
  StateConfig config{.model_type = std::string(name), .shape = {}};
  KVANT_TRY(type->read(root, config));
  return config;
}

Result<state::Plan> plan_shape(state::Lfm2StateShape shape, RowKinds rows,
                               const state::PlanRequest& request) {
  shape.keys = rows.keys;
  shape.values = rows.values;
  return state::make_plan(state::lfm2_layout(shape), request);
}

Result<state::Plan> plan_shape(state::GqaStateShape shape, RowKinds rows,
                               const state::PlanRequest& request) {
  shape.keys = rows.keys;
  shape.values = rows.values;
  return state::make_plan(state::gqa_layout(shape), request);
}

// Requires: equal kinds.
Result<state::Plan> plan_shape(state::DeepSeekV4StateShape shape, RowKinds rows,
                               const state::PlanRequest& request) {
  shape.rows = rows.keys;
  return state::plan_deepseek_v4(shape, request);
}

}  // namespace

std::int64_t StateConfig::n_ignored_ratios() const {
  const auto* deepseek = std::get_if<state::DeepSeekV4StateShape>(&shape);
  if (deepseek == nullptr) return 0;
  const auto n_ratios = static_cast<std::int64_t>(deepseek->compress_ratios.size());
  return std::max<std::int64_t>(n_ratios - n_layers, 0);
}

codec::Kind StateConfig::usual_rows() const {
  const bool is_deepseek = std::holds_alternative<state::DeepSeekV4StateShape>(shape);
  return is_deepseek ? codec::Kind::kBf16 : codec::Kind::kF16;
}

NamedResult<StateConfig> parse_state_config(JsonText json) {
  return without_bad_alloc([&]() -> NamedResult<StateConfig> {
    const JsonDocument document = KVANT_TRY(JsonDocument::parse(json, kConfigLimits));
    const JsonObject root = KVANT_TRY(document.object());
    return read_root(root);
  });
}

NamedResult<StateConfig> read_state_config(const std::string& directory) {
  return without_bad_alloc([&]() -> NamedResult<StateConfig> {
    constexpr Bytes kMax(static_cast<std::int64_t>(kConfigLimits.bytes_max));
    const std::string path = directory + "/config.json";
    const std::string text = KVANT_TRY(read_needed_file(path, kMax));
    return parse_state_config({.name = path, .text = text});
  });
}

NamedResult<state::Plan> plan_state(const StateConfig& config, RowKinds rows,
                                    const state::PlanRequest& request) {
  if (request.context.value() < 1) return NamedError(Error{.code = kEmptyContext}, "context");
  if (request.context.value() > config.context_length) {
    return NamedError(Error{.code = kContextBound,
                            .actual = static_cast<std::uint64_t>(request.context.value()),
                            .expected = static_cast<std::uint64_t>(config.context_length)},
                      "context of the model");
  }
  const bool one_row = std::holds_alternative<state::DeepSeekV4StateShape>(config.shape);
  if (one_row && rows.keys != rows.values) {
    return NamedError(Error{.code = kBadValue},
                      fmt::format("keys {} and values {}: {} keeps one row that is both",
                                  name_of(rows.keys), name_of(rows.values), config.model_type));
  }
  auto plan =
      std::visit([&](const auto& shape) { return plan_shape(shape, rows, request); }, config.shape);
  if (!plan) return NamedError(plan.error(), config.model_type);
  return std::move(*plan);
}

}  // namespace kvant::model
