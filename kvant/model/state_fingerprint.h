// The fingerprint of a model's states: what a file of one must say to be used with this model.
//
// Fields, in this order (their encoding: kvant/state/fingerprint.h):
//
//   model.architecture                                     text
//   model.vocab_size .hidden_size .n_heads .head_dim .ffn_dim .conv_width .conv_bias
//   .tie_word_embeddings                                   numbers, flags as 0 or 1
//   model.norm_eps                                         binary32
//   rope.pairing rope.scaling                              text: "neox", "none"
//   rope.theta                                             binary64
//   numerics                                               text: kernels::kNumericsVersion
//   model.layers, and for each layer layer.kind (text) and layer.n_kv_heads
//   weights.tensors, and for each tensor, by ascending name: tensor.name and tensor.dtype (text),
//   tensor.rank, tensor.size for each dimension, tensor.xxh3_128 (16 bytes, as its digits read)
//   the layout
//
// What shapes no byte of a state is left out: context_length, ids that end a text, the tokenizer.
#pragma once

#include "kvant/base/result.h"
#include "kvant/model/loader.h"
#include "kvant/state/fingerprint.h"
#include "kvant/state/layout.h"

namespace kvant::model {

// Errors: those of state::FingerprintBuilder.
// Cost: reads every byte of the weights.
Result<state::Fingerprint> state_fingerprint(const LoadedModel& model, const state::Layout& layout);

}  // namespace kvant::model
