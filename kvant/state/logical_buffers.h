// A plan told as the buffers that an engine without pages would allocate: what papers, model cards
// and other planners count, so that figures can be compared line by line.
//
// The ring and the compressed rows of a DeepSeek-V4 layer are one buffer there, so that a kernel
// reads both as one matrix; each is a view of it:
//
//   attention_kv  | window_kv: min(window, context) rows | compressed_kv: context / ratio rows |
//                   ^ offset 0                             ^ offset: bytes of window_kv
//
// Source: the buffer plan of hf2q 0.1.4; for keys, values and short convolutions cera 0.2.6.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvant/state/plan.h"

namespace kvant::state {

struct LogicalBuffer {
  LayerIndex layer;
  ComponentKind kind = ComponentKind::kNone;
  tensor::Dtype dtype = tensor::Dtype::kF32;
  std::array<std::int64_t, 3> dims{};
  std::size_t n_dims = 3;
  Bytes bytes{0};
  // Set for a view: where it begins in the layer's kAttentionKv. Views are not counted again.
  std::optional<Bytes> view_offset{};

  std::span<const std::int64_t> shape() const { return {dims.data(), n_dims}; }
  // "[262144, 512]"
  std::string shape_text() const;
};

// Buffers layer by layer, a view behind the buffer it looks into. The bytes of all that are no
// views sum to plan.logical_bytes. What would be empty (compressed rows of a context shorter than
// the ratio) is left out. Shapes: rows of one head [rows, width]; of several [n_heads, rows,
// width]; blocks [1, n_rows, width]. Errors: kOutOfMemory.
Result<std::vector<LogicalBuffer>> logical_buffers(const Plan& plan);

}  // namespace kvant::state
