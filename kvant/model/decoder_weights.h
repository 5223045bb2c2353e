// Weights of a decoder: pre-norm layers whose operator is attention or a gated short convolution,
// each followed by a SwiGLU feed-forward network.
//
// Matrices stay where the file has them (mapped) and in their type. What kernels read once a row
// and want in binary32 (norms, convolution taps in time-major order, biases) is copied into one
// owned buffer, a few hundred kilobytes at most.
#pragma once

#include <memory>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/kernels/ops.h"
#include "kvant/model/config.h"
#include "kvant/model/weight_set.h"
#include "kvant/tensor/buffer.h"

namespace kvant::model {

struct AttentionWeights {
  kernels::Weight q = {};         // [n_heads * head_dim, hidden_size]
  kernels::Weight k = {};         // [n_kv_heads * head_dim, hidden_size]
  kernels::Weight v = {};         // [n_kv_heads * head_dim, hidden_size]
  kernels::Weight out = {};       // [hidden_size, n_heads * head_dim]
  const float* q_norm = nullptr;  // [head_dim]
  const float* k_norm = nullptr;  // [head_dim]
};

struct ShortConvWeights {
  kernels::Weight in = {};      // [3 * hidden_size, hidden_size]: B, C, x
  kernels::Weight out = {};     // [hidden_size, hidden_size]
  const float* taps = nullptr;  // [conv_width, hidden_size], oldest first
  const float* bias = nullptr;  // [hidden_size] or null
};

struct LayerWeights {
  LayerKind kind = LayerKind::kAttention;
  const float* operator_norm = nullptr;  // [hidden_size]
  AttentionWeights attention = {};       // of attention layers
  ShortConvWeights conv = {};            // of the others
  const float* ffn_norm = nullptr;       // [hidden_size]
  kernels::Weight gate = {};             // [ffn_dim, hidden_size]
  kernels::Weight up = {};               // [ffn_dim, hidden_size]
  kernels::Weight down = {};             // [hidden_size, ffn_dim]
};

struct DecoderWeights {
  std::shared_ptr<const WeightSet> files;  // keeps the mapped bytes alive
  tensor::Buffer<float> owned = {};        // norms, taps, biases
  kernels::Weight embedding = {};          // [vocab_size, hidden_size]
  kernels::Weight head = {};               // [vocab_size, hidden_size]; the embedding when tied
  const float* final_norm = nullptr;       // [hidden_size]
  std::vector<LayerWeights> layers = {};
};

// The weights of an LFM2 model under their Hugging Face names.
//
// A model whose config says tied reads no lm_head even if the file has one; an untied model without
// it is refused. Tensors that the architecture does not use are ignored.
// Errors: kMissingTensor, kShapeMismatch, kUnknownDtype (not a float type), each with the tensor's
// name; kOutOfMemory.
NamedResult<DecoderWeights> load_lfm2_weights(const ModelConfig& config,
                                              std::shared_ptr<const WeightSet> files);

}  // namespace kvant::model
