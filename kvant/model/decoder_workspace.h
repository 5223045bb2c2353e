// Scratch memory of a decoder's pass: one buffer, cut once, reused over layers and tokens.
//
//   hidden  [max_rows, hidden_size]            the residual stream
//   normed  [max_rows, hidden_size]            input of a block; then the block's output
//   wide    [max_rows, widest of a block]      B, C, x | q, k, v | gate, up
//   mixed   [max_rows, widest operator output] attention's or the convolution's output
//   cos, sin [max_query_variants, max_rows, head_dim / 2]
//   turned  [max_query_variants - 1, max_rows, n_heads * head_dim]  q for further position deltas
//   logit_rows [max_logit_rows, hidden_size], logits [max_logit_rows, vocab_size]
//   kernels [scratch of the kernels' drivers]
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kvant/kernels/ops.h"
#include "kvant/model/network.h"
#include "kvant/tensor/buffer.h"

namespace kvant::model {

// Offsets into the workspace's buffer, in floats; every part begins on 64 bytes.
struct DecoderWorkspaceLayout {
  std::int64_t hidden = 0;
  std::int64_t normed = 0;
  std::int64_t wide = 0;
  std::int64_t mixed = 0;
  std::int64_t cos = 0;
  std::int64_t sin = 0;
  std::int64_t turned = 0;
  std::int64_t logit_rows = 0;
  std::int64_t logits = 0;
  std::int64_t kernels = 0;
  std::int64_t end = 0;
  std::int64_t wide_width = 0;
  std::int64_t max_kv_width = 0;
};

// Errors: kInvalidArgument for a shape with a field below 1; kOutOfMemory{UINT64_MAX} when the
// sizes do not fit.
Result<DecoderWorkspaceLayout> lay_out_workspace(const ModelConfig& config,
                                                 const WorkspaceShape& shape);

// Bytes of everything a DecoderWorkspace holds.
Bytes workspace_bytes_of(const DecoderWorkspaceLayout& layout, const WorkspaceShape& shape);

class DecoderWorkspace final : public Workspace {
 public:
  static Result<std::unique_ptr<Workspace>> create(const ModelConfig& config,
                                                   const WorkspaceShape& shape);

  const WorkspaceShape& shape() const override { return shape_; }
  Bytes bytes() const override { return workspace_bytes_of(layout_, shape_); }

  const DecoderWorkspaceLayout& layout() const { return layout_; }
  float* at(std::int64_t offset) { return floats_.data() + offset; }
  std::span<float> kernel_scratch() {
    return floats_.span().subspan(static_cast<std::size_t>(layout_.kernels));
  }

  // A row of a batch whose logits are wanted.
  struct WantedRow {
    std::size_t span;
    std::size_t row;
  };
  // Room for max_logit_rows of them.
  std::vector<WantedRow>& wanted_rows() { return wanted_rows_; }

  // Rooms for the arguments of a batch, one a span.
  std::vector<kernels::AttentionArgs>& attention_args() { return attention_args_; }
  std::vector<kernels::ShortConvArgs>& conv_args() { return conv_args_; }
  // max_query_variants a span, those of one span one after another; and each span's.
  std::vector<kernels::QueryVariant>& query_variants() { return query_variants_; }
  std::vector<std::span<const kernels::QueryVariant>>& span_queries() { return span_queries_; }

 private:
  DecoderWorkspace(const WorkspaceShape& shape, const DecoderWorkspaceLayout& layout,
                   tensor::Buffer<float> floats)
      : shape_(shape), layout_(layout), floats_(std::move(floats)) {}

  WorkspaceShape shape_;
  DecoderWorkspaceLayout layout_;
  tensor::Buffer<float> floats_;
  std::vector<kernels::AttentionArgs> attention_args_;
  std::vector<kernels::ShortConvArgs> conv_args_;
  std::vector<kernels::QueryVariant> query_variants_;
  std::vector<std::span<const kernels::QueryVariant>> span_queries_;
  std::vector<WantedRow> wanted_rows_;
};

}  // namespace kvant::model
