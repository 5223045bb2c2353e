// The forward pass of pre-norm decoders (docs/numerics.md has the order of every operation):
//
//   h = embedding[token]
//   each layer:  h += operator(rms(h; operator_norm))      attention or short convolution
//                h += down(silu(gate f) * up f)            f = rms(h; ffn_norm)
//   logits = head . rms(h; final_norm)
//
// Attention norms q and k per head, turns them by their position and stores k and v in the
// sequence's pages. Of a sequence that was shifted, it turns q once for each position delta that
// stored keys have (state::Sequence::position_runs). The short convolution keeps its last inputs in
// the sequence's block.
//
// Source: Lfm2ForCausalLM of Hugging Face transformers; golden files in tests/golden.
#pragma once

#include <memory>

#include "kvant/kernels/rope_frequencies.h"
#include "kvant/model/decoder_weights.h"
#include "kvant/model/network.h"

namespace kvant::model {

class Decoder final : public Network {
 public:
  // Errors: those of RopeFrequencies::create.
  static NamedResult<std::shared_ptr<const Network>> create(ModelConfig config,
                                                            DecoderWeights weights);

  const ModelConfig& config() const override { return config_; }
  Bytes owned_weight_bytes() const override;
  Bytes read_bytes_per_token() const override;
  Result<std::unique_ptr<Workspace>> create_workspace(const WorkspaceShape& shape) const override;
  Status forward(std::span<const BatchSpan> batch, const kernels::KernelTable& kernels,
                 ThreadPool& pool, Workspace& workspace, PassObserver& observer) const override;

 private:
  Decoder(ModelConfig config, DecoderWeights weights, kernels::RopeFrequencies rope)
      : config_(std::move(config)), weights_(std::move(weights)), rope_(std::move(rope)) {}

  ModelConfig config_;
  DecoderWeights weights_;
  kernels::RopeFrequencies rope_;
};

}  // namespace kvant::model
