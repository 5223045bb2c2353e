// A model directory, loaded: config and weights as a network. (Its tokenizer is opened apart: not
// every model has one, and planning needs neither.)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/model/config.h"
#include "kvant/model/network.h"
#include "kvant/model/weight_set.h"

namespace kvant::model {

// Immutable and shared: any number of sessions and threads hold the same one.
struct LoadedModel {
  ModelConfig config;
  std::shared_ptr<const WeightSet> weights;
  std::shared_ptr<const Network> network;
};

// The network alone: config.json and *.safetensors of a Hugging Face directory.
// `access` kRead copies the weights, for files that others may change while they are in use.
// Errors: those of read_config, WeightSet::open and of the architecture's loader.
NamedResult<std::shared_ptr<const LoadedModel>> load_model(const std::string& directory,
                                                           FileAccess access = FileAccess::kMap);

}  // namespace kvant::model
