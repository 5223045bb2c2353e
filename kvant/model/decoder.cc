#include "kvant/model/decoder.h"

#include <new>

#include "kvant/model/decoder_pass.h"
#include "kvant/model/decoder_workspace.h"
#include "kvant/state/declarations.h"

namespace kvant::model {
namespace {

Bytes bytes_of(const kernels::Weight& weight) {
  return Bytes(weight.n_columns * weight.width * tensor::bytes_of(weight.dtype));
}

}  // namespace

NamedResult<std::shared_ptr<const Network>> Decoder::create(ModelConfig config,
                                                            DecoderWeights weights) {
  auto rope =
      kernels::RopeFrequencies::create({.theta = config.rope_theta, .head_dim = config.head_dim});
  if (!rope) return NamedError(rope.error(), "rotary embeddings");
  try {
    return std::shared_ptr<const Network>(
        new Decoder(std::move(config), std::move(weights), std::move(*rope)));
  } catch (const std::bad_alloc&) {
    return NamedError(Error{.code = ErrorCode::kOutOfMemory, .actual = sizeof(Decoder)});
  }
}

Bytes Decoder::owned_weight_bytes() const {
  return Bytes(static_cast<std::int64_t>(weights_.owned.size() * sizeof(float)));
}

Bytes Decoder::read_bytes_per_token() const {
  Bytes total = bytes_of(weights_.head) + owned_weight_bytes();
  for (const LayerWeights& layer : weights_.layers) {
    total += bytes_of(layer.gate) + bytes_of(layer.up) + bytes_of(layer.down);
    if (layer.kind == LayerKind::kAttention) {
      const AttentionWeights& attention = layer.attention;
      total += bytes_of(attention.q) + bytes_of(attention.k) + bytes_of(attention.v) +
               bytes_of(attention.out);
    } else {
      total += bytes_of(layer.conv.in) + bytes_of(layer.conv.out);
    }
  }
  return total;
}

Result<std::unique_ptr<Workspace>> Decoder::create_workspace(const WorkspaceShape& shape) const {
  return DecoderWorkspace::create(config_, shape);
}

Status Decoder::forward(std::span<const BatchSpan> batch, const kernels::KernelTable& kernels,
                        ThreadPool& pool, Workspace& workspace, PassObserver& observer) const {
  KVANT_TRY(DecoderPass::check(config_, workspace.shape(), batch));
  // Requires: the workspace is ours (network.h).
  auto& scratch = static_cast<DecoderWorkspace&>(workspace);
  return DecoderPass({.config = config_,
                      .weights = weights_,
                      .rope = rope_,
                      .kernels = kernels,
                      .pool = pool,
                      .workspace = scratch,
                      .observer = observer},
                     batch)
      .run();
}

NamedResult<state::Layout> state_layout(const ModelConfig& config, codec::Kind keys,
                                        codec::Kind values) {
  state::Lfm2StateShape shape{.head_dim = Elements(config.head_dim),
                              .conv_width = config.conv_width,
                              .hidden_size = Elements(config.hidden_size),
                              .keys = keys,
                              .values = values};
  for (const LayerConfig& layer : config.layers) shape.kv_heads.emplace_back(layer.n_kv_heads);
  state::Layout layout = state::lfm2_layout(shape);
  const Status valid = layout.validate();
  if (!valid) return NamedError(valid.error(), "state layout");
  return layout;
}

NamedResult<Bytes> workspace_bytes(const ModelConfig& config, const WorkspaceShape& shape) {
  const auto layout = lay_out_workspace(config, shape);
  if (!layout) return NamedError(layout.error(), "scratch memory of a pass");
  return workspace_bytes_of(*layout, shape);
}

}  // namespace kvant::model
