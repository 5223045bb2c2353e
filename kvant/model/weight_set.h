// The weights of a Hugging Face model directory, whether in one safetensors file or in shards.
//
// With a `model.safetensors.index.json` its weight_map alone says which files belong to the model
// and which tensor lies where: other files in the directory are never opened, even one called
// model.safetensors. Without it, `model.safetensors` is the model.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/model/safetensors.h"

namespace kvant::model {

// Immutable after open; shared by any number of threads.
class WeightSet {
 public:
  // Errors: those of SafetensorsFile::open and of the index: kBadJson, kMissingKey, kBadValue (a
  // file name with a folder in it, a shard count that the names contradict), kMissingFile (no
  // weights, or a shard the index names), kMissingTensor (the index places it in a shard that
  // lacks it), kDuplicateName (a tensor in two shards or twice in the index).
  static NamedResult<WeightSet> open(const std::string& directory,
                                     FileAccess access = FileAccess::kMap);

  // Null when there is no such tensor. Cost: O(log n_tensors).
  const TensorInfo* find(std::string_view name) const;

  // The tensor, which must have exactly this shape.
  // Shapes: `shape` slowest dimension first.
  // Errors: kMissingTensor; kShapeMismatch{actual, expected: the first differing dimension, or the
  // number of dimensions}; both with the name as detail.
  NamedResult<const TensorInfo*> require(std::string_view name,
                                         std::span<const std::int64_t> shape) const;

  // In ascending order of names.
  std::span<const TensorInfo* const> tensors() const { return tensors_; }
  std::span<const SafetensorsFile> files() const { return files_; }
  Bytes data_bytes() const;

 private:
  WeightSet() = default;

  std::vector<SafetensorsFile> files_;
  std::vector<const TensorInfo*> tensors_;  // into files_, whose tables do not move
};

}  // namespace kvant::model
