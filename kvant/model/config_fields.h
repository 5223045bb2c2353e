// Fields of a config.json that more than one reader wants. Internal to the room.
//
// Each function reads some keys of the root object and checks them alone and against what was read
// before. Errors, as everywhere in this room, name file, key, what was received and what is
// allowed: kMissingKey, kBadValue, kLimitExceeded, kDuplicateName; kUnsupportedModel for a layer
// type that nobody here knows.
#pragma once

#include <cstdint>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/model/config.h"
#include "kvant/model/json.h"

namespace kvant::model {

inline constexpr JsonLimits kConfigLimits{.bytes_max = std::size_t{4} << 20, .depth_max = 32};

// num_hidden_layers
NamedResult<std::int64_t> read_n_layers(const JsonObject& root);

// hidden_size, num_attention_heads and head_dim into the fields of the config. Without head_dim a
// head is hidden_size / num_attention_heads wide.
NamedStatus read_heads(const JsonObject& root, ModelConfig& config);

// num_key_value_heads, one number for all layers or one for each.
NamedResult<std::vector<std::int64_t>> read_kv_heads(const JsonObject& root, std::size_t n_layers);

// An error unless the layer's KV heads divide the attention heads.
NamedStatus check_kv_heads(const JsonObject& root, std::size_t layer, std::int64_t n_kv_heads,
                           std::int64_t n_heads);

// The layers of the LFM2 family: layer_types, else full_attn_idxs, else all attend.
// Requires: read_heads before.
NamedStatus read_lfm2_layers(const JsonObject& root, ModelConfig& config);

// The same family's conv_L_cache and max_position_embeddings. Requires: read_lfm2_layers before.
NamedStatus read_lfm2_conv_width(const JsonObject& root, ModelConfig& config);
NamedStatus read_lfm2_context(const JsonObject& root, ModelConfig& config);

}  // namespace kvant::model
