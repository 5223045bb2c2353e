// What a model is: its architecture and geometry, checked.
//
// A ModelConfig says nothing about files; readers of config.json (here) and of other containers
// fill it. Fields that an architecture does not use keep the value that means "nothing" (1 for
// multipliers, 0 for widths). All numbers have passed the limits in `limits` and fit together, so
// the code behind it multiplies them without asking again.
//
// Invariants of a config that a reader returned
//   1. layers is not empty; every attention layer has n_kv_heads >= 1 and n_heads is a multiple.
//   2. head_dim is even and >= 2.
//   3. conv_width >= 2 when any layer is a short convolution.
//   4. ids are in [0, vocab_size); eos_ids has no duplicates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/model/json_text.h"

namespace kvant::model {

enum class Architecture : std::uint8_t { kLfm2 = 0 };

// The name as config.json and GGUF files spell it ("lfm2").
std::string_view name_of(Architecture architecture);

enum class LayerKind : std::uint8_t { kAttention = 0, kShortConv = 1 };

std::string_view name_of(LayerKind kind);

struct LayerConfig {
  LayerKind kind = LayerKind::kAttention;
  std::int64_t n_kv_heads = 0;  // 0 on layers without attention

  friend bool operator==(const LayerConfig&, const LayerConfig&) = default;
};

struct ModelConfig {
  Architecture architecture = Architecture::kLfm2;
  std::int64_t vocab_size = 0;  // rows of the embedding; a tokenizer may know fewer ids
  std::int64_t hidden_size = 0;
  std::int64_t n_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn_dim = 0;     // as the config derives it; the weights' shape must agree
  std::int64_t conv_width = 0;  // taps of a short convolution; its state keeps conv_width - 1 rows
  bool conv_bias = false;
  bool tie_word_embeddings = true;
  float norm_eps = 0.0F;
  double rope_theta = 0.0;
  std::int64_t context_length = 0;  // positions the model was made for
  std::vector<LayerConfig> layers;  // [n_layers]
  std::optional<TokenId> bos_id;
  std::optional<TokenId> pad_id;
  std::vector<TokenId> eos_ids;  // any of them ends a text

  std::int64_t n_layers() const { return static_cast<std::int64_t>(layers.size()); }
  std::int64_t n_layers_of(LayerKind kind) const;
};

// Bounds of ours, far above every published model, so that no product of two of them overflows
// and no absurd file makes the planner work for hours.
namespace limits {
inline constexpr std::int64_t kHiddenSizeMax = std::int64_t{1} << 20;
inline constexpr std::int64_t kFfnDimMax = std::int64_t{1} << 22;
inline constexpr std::int64_t kHeadsMax = std::int64_t{1} << 14;
inline constexpr std::int64_t kHeadDimMax = std::int64_t{1} << 14;
inline constexpr std::int64_t kLayersMax = 4096;
inline constexpr std::int64_t kVocabSizeMax = std::int64_t{1} << 24;
inline constexpr std::int64_t kConvWidthMax = 1024;
inline constexpr std::int64_t kContextMax = std::int64_t{1} << 30;
}  // namespace limits

// Reads a Hugging Face config.json.
//
// Errors, each naming the key, what was received and what is allowed: kBadJson, kDuplicateName,
// kMissingKey, kBadValue, kLimitExceeded; kUnsupportedModel for another model_type, layer type,
// RoPE scaling or a quantisation we cannot read.
NamedResult<ModelConfig> parse_config(JsonText json);

// Adds the end ids of a generation_config.json to those of the config.
// Errors: as parse_config; `config` is unchanged then.
NamedStatus merge_generation_config(JsonText json, ModelConfig& config);

// config.json of a model directory and, when present, its generation_config.json.
// Errors: as above; kMissingFile when there is no config.json; those of read_text_file.
NamedResult<ModelConfig> read_config(const std::string& directory);

}  // namespace kvant::model
