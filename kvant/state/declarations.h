// Layouts of the architectures: the only place where a model's memory is described.
#pragma once

#include <vector>

#include "kvant/state/layout.h"

namespace kvant::state {

// The LFM2 family, and every dense model with grouped-query attention: a layer either attends over
// all positions (keys and values, one row a position and KV head) or is a short convolution that
// remembers its last conv_width - 1 inputs.
struct Lfm2StateShape {
  std::vector<Heads> kv_heads = {};  // [n_layers]; 0: a short convolution
  Elements head_dim{0};
  std::int64_t conv_width = 3;  // taps; at least 2 where a layer is a convolution
  Elements hidden_size{0};
  codec::Kind keys = codec::Kind::kF16;
  codec::Kind values = codec::Kind::kF16;
  Tokens page_positions{Layout::kMaxPagePositions};
};

// kKeys and kValues for attention layers, kConvState [conv_width - 1, hidden_size] (oldest first,
// initially 0) for the others. Never fails: a shape that makes no sense gives a layout that
// Layout::validate refuses by layer and kind.
Layout lfm2_layout(const Lfm2StateShape& shape);

}  // namespace kvant::state
