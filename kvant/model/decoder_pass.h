// One pass of a decoder over one batch: the object that forward makes and runs.
#pragma once

#include <cstdint>
#include <span>

#include "kvant/kernels/ops.h"
#include "kvant/kernels/rope_frequencies.h"
#include "kvant/model/decoder_weights.h"
#include "kvant/model/decoder_workspace.h"
#include "kvant/model/network.h"

namespace kvant::model {

class DecoderPass {
 public:
  struct Context {
    const ModelConfig& config;
    const DecoderWeights& weights;
    const kernels::RopeFrequencies& rope;
    const kernels::KernelTable& kernels;
    ThreadPool& pool;
    DecoderWorkspace& workspace;
    PassObserver& observer;
  };

  // Requires: check has passed for the batch.
  DecoderPass(const Context& context, std::span<const BatchSpan> batch);

  // Whether the batch can run at all: tokens, sizes, and each sequence's open step and components.
  static Status check(const ModelConfig& config, const WorkspaceShape& shape,
                      std::span<const BatchSpan> batch);

  // Errors: none after a passed check; the Status carries what the state's views say.
  Status run();

 private:
  // Rows of heads and where the angles that turn them lie.
  struct Heads {
    float* x = nullptr;  // [n_rows, n_heads, head_dim]
    std::int64_t n_rows = 0;
    std::int64_t n_heads = 0;
    std::int64_t first_angle = 0;  // row of the workspace's cos and sin
  };

  void embed();
  void plan_queries();
  void fill_angles(Position position, std::int64_t n, std::int64_t row);
  void turn(const Heads& heads);
  void turn_further_queries(const float* q);
  Status attention(std::size_t layer);
  Status short_conv(std::size_t layer);
  Status convolve(std::size_t layer);
  Result<kernels::ShortConvArgs> piece_of(std::size_t layer, const BatchSpan& span,
                                          std::int64_t piece);
  void feed_forward(const LayerWeights& weights);
  void norm(const float* weight, const float* x);
  void report_logits();
  void flush_logits();

  std::span<const float> all_rows(const float* data) const;
  float* part(std::int64_t offset) { return context_.workspace.at(offset); }

  Context context_;
  std::span<const BatchSpan> batch_;
  kernels::Executor exec_;
  std::int64_t n_rows_ = 0;
  // Parts of the workspace.
  float* hidden_;
  float* normed_;
  float* wide_;
  float* mixed_;
};

}  // namespace kvant::model
