// What a model remembers, from its config.json alone: enough to plan its state, also of models that
// this version cannot run.
//
// Only the fields that shape a state are read, so a config whose other parts are unknown here
// (experts, quantised weights, RoPE scaling) can be planned all the same.
//
//   model_type                                   shape
//   lfm2, lfm2_moe                               attention and short convolutions by layer
//   llama, mistral, qwen2, qwen3, granite        grouped-query attention, some with windows
//   deepseek_v4                                  rings, compressed rows, compressor states
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "kvant/base/result.h"
#include "kvant/codec/kind.h"
#include "kvant/model/json_text.h"
#include "kvant/state/declarations.h"
#include "kvant/state/plan.h"

namespace kvant::model {

struct StateConfig {
  std::string model_type;           // as the file spells it
  std::int64_t context_length = 0;  // positions the model was made for
  std::int64_t n_layers = 0;
  std::variant<state::Lfm2StateShape, state::GqaStateShape, state::DeepSeekV4StateShape> shape;

  // Compress ratios beyond the layers, which belong to blocks for speculative decoding.
  std::int64_t n_ignored_ratios() const;
  // How rows are stored unless somebody says otherwise.
  codec::Kind usual_rows() const;
};

// Errors: as parse_config (config.h); kUnsupportedModel for a model_type that is not listed above.
NamedResult<StateConfig> parse_state_config(JsonText json);

// config.json of a model directory.
// Errors: as above; kMissingFile when there is none; those of read_text_file.
NamedResult<StateConfig> read_state_config(const std::string& directory);

struct RowKinds {
  codec::Kind keys = codec::Kind::kF16;
  codec::Kind values = codec::Kind::kF16;
};

// The plan of the state, nothing beside it.
// Errors, in this order: kEmptyContext; kContextBound{context, context_length}; kBadValue for two
// kinds where one row is key and value; those of the declaration and of state::make_plan.
NamedResult<state::Plan> plan_state(const StateConfig& config, RowKinds rows,
                                    const state::PlanRequest& request);

}  // namespace kvant::model
