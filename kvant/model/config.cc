#include "kvant/model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kvant/model/config_fields.h"
#include "kvant/model/json.h"
#include "kvant/model/model_file.h"

namespace kvant::model {
namespace {

// Keys are looked up in order: the first that is there wins.
using Keys = std::initializer_list<std::string_view>;

NamedResult<std::optional<std::int64_t>> first_integer(const JsonObject& root, Keys keys,
                                                       IntegerRange range) {
  for (const std::string_view key : keys) {
    const auto number = KVANT_TRY(root.find_integer(key, range));
    if (number) return number;
  }
  return std::optional<std::int64_t>();
}

NamedResult<double> first_number(const JsonObject& root, Keys keys, double fallback) {
  for (const std::string_view key : keys) {
    const auto number = KVANT_TRY(root.find_number(key));
    if (number) return *number;
  }
  return fallback;
}

NamedResult<bool> first_flag(const JsonObject& root, Keys keys, bool fallback) {
  for (const std::string_view key : keys) {
    const auto flag = KVANT_TRY(root.find_flag(key));
    if (flag) return *flag;
  }
  return fallback;
}

NamedStatus check_supported(const JsonObject& root) {
  const std::string_view type = KVANT_TRY(root.text("model_type"));
  if (type != name_of(Architecture::kLfm2)) {
    return NamedError({.code = ErrorCode::kUnsupportedModel},
                      fmt::format("{}: model_type is {}, supported is '{}'", root.where(),
                                  in_quotes(type), name_of(Architecture::kLfm2)));
  }
  if (root.find("quantization_config") != nullptr) {
    return NamedError({.code = ErrorCode::kUnsupportedModel},
                      fmt::format("{}: quantization_config: weights of this packing cannot be"
                                  " read, use the unquantised model",
                                  root.where()));
  }
  return {};
}

// The width rule of the LFM2 family: two thirds of the given width, scaled and rounded up, unless
// the file says that the width is final. The rounding belongs to the multiplier, as in the model's
// reference code; the shape of the weights has the last word.
NamedResult<std::int64_t> read_ffn_dim(const JsonObject& root) {
  constexpr IntegerRange kRange{.min = 1, .max = limits::kFfnDimMax};
  const auto given = KVANT_TRY(first_integer(root, {"block_ff_dim", "intermediate_size"}, kRange));
  if (!given) return root.missing_key("intermediate_size");
  if (!KVANT_TRY(first_flag(root, {"block_auto_adjust_ff_dim"}, true))) return *given;

  std::int64_t ffn_dim = 2 * *given / 3;
  const bool has_key = root.find("block_ffn_dim_multiplier") != nullptr;
  const double multiplier = KVANT_TRY(first_number(root, {"block_ffn_dim_multiplier"}, 1.0));
  const std::int64_t multiple_of =
      KVANT_TRY(first_integer(root, {"block_multiple_of"}, kRange)).value_or(256);
  const double scaled = std::floor(multiplier * static_cast<double>(ffn_dim));
  if (!(scaled >= 1.0 && scaled <= static_cast<double>(limits::kFfnDimMax))) {
    if (!has_key) return root.bad_value("intermediate_size", "at least 2");
    return root.bad_value("block_ffn_dim_multiplier",
                          fmt::format("what makes the width 1 to {}", limits::kFfnDimMax));
  }
  ffn_dim = static_cast<std::int64_t>(scaled);
  // A null multiplier switches the rounding off; an absent one means 1.
  const bool is_null = !has_key && root.has("block_ffn_dim_multiplier");
  if (is_null) return ffn_dim;
  return (ffn_dim + multiple_of - 1) / multiple_of * multiple_of;
}

NamedStatus check_rope_type(const JsonObject& rope) {
  for (const std::string_view key : {"rope_type", "type"}) {
    const auto type = KVANT_TRY(rope.find_text(key));
    if (!type || *type == "default") continue;
    return NamedError(
        {.code = ErrorCode::kUnsupportedModel},
        fmt::format("{}: {} is {}, supported is 'default'", rope.where(), key, in_quotes(*type)));
  }
  return {};
}

NamedStatus read_rope(const JsonObject& root, ModelConfig& config) {
  constexpr double kDefaultTheta = 1e6;
  constexpr double kThetaMax = 1e15;
  double theta = kDefaultTheta;
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const auto rope = KVANT_TRY(root.find_object(key));
    if (!rope) continue;
    KVANT_TRY(check_rope_type(*rope));
    theta = KVANT_TRY(first_number(*rope, {"rope_theta"}, theta));
  }
  theta = KVANT_TRY(first_number(root, {"rope_theta", "theta"}, theta));
  if (!(theta > 1.0 && theta <= kThetaMax)) {
    return NamedError({.code = ErrorCode::kBadValue},
                      fmt::format("{}: rope_theta is {}, allowed is above 1 to {}", root.where(),
                                  theta, kThetaMax));
  }
  config.rope_theta = theta;
  return {};
}

NamedStatus read_norm(const JsonObject& root, ModelConfig& config) {
  constexpr double kDefaultEps = 1e-5;
  const double eps = KVANT_TRY(first_number(root, {"norm_eps", "block_norm_eps"}, kDefaultEps));
  config.norm_eps = static_cast<float>(eps);
  if (config.norm_eps > 0.0F && config.norm_eps < 1.0F) return {};
  return NamedError(
      {.code = ErrorCode::kBadValue},
      fmt::format("{}: norm_eps is {}, allowed is above 0 and below 1", root.where(), eps));
}

NamedResult<std::optional<TokenId>> read_id(const JsonObject& root, std::string_view key,
                                            std::int64_t vocab_size) {
  const auto id = KVANT_TRY(root.find_integer(key, {.min = 0, .max = vocab_size - 1}));
  if (!id) return std::optional<TokenId>();
  return std::optional<TokenId>(static_cast<TokenId>(*id));
}

// One id or a list of them, added to those in `ids`.
NamedStatus read_eos_ids(const JsonObject& root, std::int64_t vocab_size,
                         std::vector<TokenId>& ids) {
  constexpr std::string_view kKey = "eos_token_id";
  constexpr std::size_t kIdsMax = 1024;
  const JsonValue* value = root.find(kKey);
  if (value == nullptr) return {};
  const std::string where = fmt::format("{}: {}", root.where(), kKey);
  std::vector<TokenId> found = ids;
  const auto add = [&](const JsonValue& entry) -> NamedStatus {
    const auto id = static_cast<TokenId>(
        KVANT_TRY(checked_integer(entry, where, {.min = 0, .max = vocab_size - 1})));
    if (std::find(found.begin(), found.end(), id) == found.end()) found.push_back(id);
    return {};
  };
  simdjson::dom::array array;
  if (value->get_array().get(array) != simdjson::SUCCESS) {
    KVANT_TRY(add(*value));
  } else {
    for (const JsonValue entry : array) {
      if (found.size() > kIdsMax) return root.bad_value(kKey, "a short list");
      KVANT_TRY(add(entry));
    }
  }
  ids = std::move(found);
  return {};
}

NamedResult<ModelConfig> read_root(const JsonObject& root) {
  KVANT_TRY(check_supported(root));
  ModelConfig config;
  config.architecture = Architecture::kLfm2;
  config.vocab_size =
      KVANT_TRY(root.integer("vocab_size", {.min = 1, .max = limits::kVocabSizeMax}));
  KVANT_TRY(read_heads(root, config));
  KVANT_TRY(read_lfm2_layers(root, config));
  config.ffn_dim = KVANT_TRY(read_ffn_dim(root));
  KVANT_TRY(read_lfm2_conv_width(root, config));
  config.conv_bias = KVANT_TRY(first_flag(root, {"conv_bias"}, false));
  KVANT_TRY(read_norm(root, config));
  KVANT_TRY(read_rope(root, config));
  config.tie_word_embeddings =
      KVANT_TRY(first_flag(root, {"tie_embedding", "tie_word_embeddings"}, true));
  KVANT_TRY(read_lfm2_context(root, config));
  config.bos_id = KVANT_TRY(read_id(root, "bos_token_id", config.vocab_size));
  config.pad_id = KVANT_TRY(read_id(root, "pad_token_id", config.vocab_size));
  KVANT_TRY(read_eos_ids(root, config.vocab_size, config.eos_ids));
  return config;
}

}  // namespace

std::string_view name_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::kLfm2:
      return "lfm2";
  }
  return "unknown";
}

std::string_view name_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::kAttention:
      return "attention";
    case LayerKind::kShortConv:
      return "conv";
  }
  return "unknown";
}

std::int64_t ModelConfig::n_layers_of(LayerKind kind) const {
  return std::count_if(layers.begin(), layers.end(),
                       [kind](const LayerConfig& layer) { return layer.kind == kind; });
}

NamedResult<ModelConfig> parse_config(JsonText json) {
  return without_bad_alloc([&]() -> NamedResult<ModelConfig> {
    const JsonDocument document = KVANT_TRY(JsonDocument::parse(json, kConfigLimits));
    const JsonObject root = KVANT_TRY(document.object());
    return read_root(root);
  });
}

NamedStatus merge_generation_config(JsonText json, ModelConfig& config) {
  return without_bad_alloc([&]() -> NamedStatus {
    const JsonDocument document = KVANT_TRY(JsonDocument::parse(json, kConfigLimits));
    const JsonObject root = KVANT_TRY(document.object());
    return read_eos_ids(root, config.vocab_size, config.eos_ids);
  });
}

NamedResult<ModelConfig> read_config(const std::string& directory) {
  return without_bad_alloc([&]() -> NamedResult<ModelConfig> {
    constexpr Bytes kMax(static_cast<std::int64_t>(kConfigLimits.bytes_max));
    const std::string path = directory + "/config.json";
    const std::string text = KVANT_TRY(read_needed_file(path, kMax));
    ModelConfig config = KVANT_TRY(parse_config({.name = path, .text = text}));
    const std::string generation_path = directory + "/generation_config.json";
    const auto generation = KVANT_TRY(read_optional_file(generation_path, kMax));
    if (generation) {
      KVANT_TRY(merge_generation_config({.name = generation_path, .text = *generation}, config));
    }
    return config;
  });
}

}  // namespace kvant::model
