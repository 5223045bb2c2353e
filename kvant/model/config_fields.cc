#include "kvant/model/config_fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvant::model {
namespace {

// Which layers attend: layer_types, else full_attn_idxs, else all.
NamedResult<std::vector<LayerKind>> read_layer_types(const JsonObject& root, std::size_t n_layers) {
  const simdjson::dom::array names = KVANT_TRY(root.array("layer_types"));
  std::vector<LayerKind> kinds;
  for (const JsonValue value : names) {
    std::string_view name;
    if (value.get_string().get(name) != simdjson::SUCCESS) {
      return root.bad_value("layer_types", "an array of strings");
    }
    if (kinds.size() == n_layers) break;  // too many, refused below
    if (name == "full_attention") {
      kinds.push_back(LayerKind::kAttention);
    } else if (name == "conv") {
      kinds.push_back(LayerKind::kShortConv);
    } else {
      return NamedError(
          {.code = ErrorCode::kUnsupportedModel, .layer = static_cast<std::int32_t>(kinds.size())},
          fmt::format("{}: layer_types: {}, known are 'full_attention' and 'conv'", root.where(),
                      in_quotes(name)));
    }
  }
  if (names.size() != n_layers) {
    return root.bad_value("layer_types",
                          fmt::format("one entry for each of the {} layers", n_layers));
  }
  return kinds;
}

NamedResult<std::vector<LayerKind>> read_attention_indices(const JsonObject& root,
                                                           std::size_t n_layers) {
  std::vector<LayerKind> kinds(n_layers, LayerKind::kShortConv);
  const simdjson::dom::array indices = KVANT_TRY(root.array("full_attn_idxs"));
  for (const JsonValue value : indices) {
    const std::int64_t index =
        KVANT_TRY(checked_integer(value, root.where() + ": full_attn_idxs",
                                  {.min = 0, .max = static_cast<std::int64_t>(n_layers) - 1}));
    LayerKind& kind = kinds[static_cast<std::size_t>(index)];
    if (kind == LayerKind::kAttention) {
      return NamedError({.code = ErrorCode::kDuplicateName},
                        fmt::format("{}: full_attn_idxs: {}", root.where(), index));
    }
    kind = LayerKind::kAttention;
  }
  return kinds;
}

NamedResult<std::vector<LayerKind>> read_layer_kinds(const JsonObject& root) {
  const auto n_layers = static_cast<std::size_t>(KVANT_TRY(read_n_layers(root)));
  if (root.find("layer_types") != nullptr) return read_layer_types(root, n_layers);
  if (root.find("full_attn_idxs") != nullptr) return read_attention_indices(root, n_layers);
  return std::vector<LayerKind>(n_layers, LayerKind::kAttention);
}

}  // namespace

NamedResult<std::int64_t> read_n_layers(const JsonObject& root) {
  return root.integer("num_hidden_layers", {.min = 1, .max = limits::kLayersMax});
}

NamedResult<std::vector<std::int64_t>> read_kv_heads(const JsonObject& root, std::size_t n_layers) {
  constexpr std::string_view kKey = "num_key_value_heads";
  constexpr IntegerRange kRange{.min = 0, .max = limits::kHeadsMax};
  const JsonValue* value = root.find(kKey);
  if (value == nullptr) return root.missing_key(kKey);
  const std::string where = fmt::format("{}: {}", root.where(), kKey);
  simdjson::dom::array array;
  if (value->get_array().get(array) != simdjson::SUCCESS) {
    const std::int64_t n = KVANT_TRY(checked_integer(*value, where, kRange));
    return std::vector<std::int64_t>(n_layers, n);
  }
  std::vector<std::int64_t> heads;
  for (const JsonValue entry : array) {
    if (heads.size() == n_layers) break;
    heads.push_back(KVANT_TRY(checked_integer(entry, where, kRange)));
  }
  if (array.size() != n_layers) {
    return root.bad_value(kKey, fmt::format("one entry for each of the {} layers", n_layers));
  }
  return heads;
}

NamedStatus check_kv_heads(const JsonObject& root, std::size_t layer, std::int64_t n_kv_heads,
                           std::int64_t n_heads) {
  if (n_kv_heads > 0 && n_heads % n_kv_heads == 0) return {};
  return NamedError(
      {.code = ErrorCode::kBadValue, .layer = static_cast<std::int32_t>(layer)},
      fmt::format("{}: num_key_value_heads is {}, allowed on an attention layer is a divisor"
                  " of num_attention_heads, {}",
                  root.where(), n_kv_heads, n_heads));
}

NamedStatus read_lfm2_layers(const JsonObject& root, ModelConfig& config) {
  const std::vector<LayerKind> kinds = KVANT_TRY(read_layer_kinds(root));
  const std::vector<std::int64_t> kv_heads = KVANT_TRY(read_kv_heads(root, kinds.size()));
  config.layers.reserve(kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == LayerKind::kShortConv) {
      config.layers.push_back({.kind = kinds[i], .n_kv_heads = 0});
      continue;
    }
    KVANT_TRY(check_kv_heads(root, i, kv_heads[i], config.n_heads));
    config.layers.push_back({.kind = kinds[i], .n_kv_heads = kv_heads[i]});
  }
  return {};
}

NamedStatus read_heads(const JsonObject& root, ModelConfig& config) {
  config.hidden_size =
      KVANT_TRY(root.integer("hidden_size", {.min = 1, .max = limits::kHiddenSizeMax}));
  config.n_heads =
      KVANT_TRY(root.integer("num_attention_heads", {.min = 1, .max = limits::kHeadsMax}));
  const auto head_dim =
      KVANT_TRY(root.find_integer("head_dim", {.min = 2, .max = limits::kHeadDimMax}));
  if (!head_dim && config.hidden_size % config.n_heads != 0) {
    return NamedError({.code = ErrorCode::kBadValue},
                      fmt::format("{}: hidden_size is {}, allowed without head_dim is a multiple"
                                  " of num_attention_heads, {}",
                                  root.where(), config.hidden_size, config.n_heads));
  }
  config.head_dim = head_dim.value_or(config.hidden_size / config.n_heads);
  if (config.head_dim % 2 != 0) {
    return NamedError({.code = ErrorCode::kBadValue},
                      fmt::format("{}: head_dim is {}, allowed is an even number since RoPE turns"
                                  " pairs",
                                  root.where(), config.head_dim));
  }
  return {};
}

// A width out of range is said of the first layer that has one.
NamedStatus read_lfm2_conv_width(const JsonObject& root, ModelConfig& config) {
  constexpr std::int64_t kDefaultWidth = 3;
  const auto width = root.find_integer("conv_L_cache", {.min = 2, .max = limits::kConvWidthMax});
  if (!width) {
    Error error = width.error().error();
    const auto first_conv =
        std::find_if(config.layers.begin(), config.layers.end(),
                     [](const LayerConfig& l) { return l.kind == LayerKind::kShortConv; });
    if (first_conv != config.layers.end()) {
      error.layer = static_cast<std::int32_t>(first_conv - config.layers.begin());
    }
    return NamedError(error, width.error().detail());
  }
  config.conv_width = width->value_or(kDefaultWidth);
  return {};
}

NamedStatus read_lfm2_context(const JsonObject& root, ModelConfig& config) {
  constexpr std::int64_t kDefaultContext = 128000;
  config.context_length = KVANT_TRY(root.find_integer("max_position_embeddings",
                                                      {.min = 1, .max = limits::kContextMax}))
                              .value_or(kDefaultContext);
  return {};
}

}  // namespace kvant::model
