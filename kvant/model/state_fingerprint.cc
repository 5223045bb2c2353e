#include "kvant/model/state_fingerprint.h"

#include <array>
#include <cstdint>
#include <string_view>

#include "kvant/base/hash.h"
#include "kvant/kernels/kernel_table.h"

namespace kvant::model {
namespace {

using state::FingerprintBuilder;

void add_config(FingerprintBuilder& builder, const ModelConfig& config) {
  builder.add("model.architecture", name_of(config.architecture));
  builder.add("model.vocab_size", config.vocab_size);
  builder.add("model.hidden_size", config.hidden_size);
  builder.add("model.n_heads", config.n_heads);
  builder.add("model.head_dim", config.head_dim);
  builder.add("model.ffn_dim", config.ffn_dim);
  builder.add("model.conv_width", config.conv_width);
  builder.add("model.conv_bias", std::int64_t{config.conv_bias ? 1 : 0});
  builder.add("model.tie_word_embeddings", std::int64_t{config.tie_word_embeddings ? 1 : 0});
  builder.add("model.norm_eps", config.norm_eps);
  builder.add("rope.pairing", std::string_view("neox"));
  builder.add("rope.scaling", std::string_view("none"));
  builder.add("rope.theta", config.rope_theta);
  builder.add("numerics", std::string_view(kernels::kNumericsVersion));
  builder.add("model.layers", config.n_layers());
  for (const LayerConfig& layer : config.layers) {
    builder.add("layer.kind", name_of(layer.kind));
    builder.add("layer.n_kv_heads", layer.n_kv_heads);
  }
}

// The digest's bytes in the order of its hexadecimal digits.
std::array<std::byte, 16> bytes_of(const Digest128& digest) {
  std::array<std::byte, 16> bytes{};
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>((digest.high >> (56 - 8 * i)) & 0xFF);
    bytes[8 + i] = static_cast<std::byte>((digest.low >> (56 - 8 * i)) & 0xFF);
  }
  return bytes;
}

void add_tensor(FingerprintBuilder& builder, const TensorInfo& tensor) {
  builder.add("tensor.name", std::string_view(tensor.name));
  builder.add("tensor.dtype", name_of(tensor.dtype));
  builder.add("tensor.rank", static_cast<std::int64_t>(tensor.shape.size()));
  for (const std::int64_t size : tensor.shape) builder.add("tensor.size", size);
  builder.add("tensor.xxh3_128", bytes_of(xxh3_128(tensor.data)));
}

}  // namespace

Result<state::Fingerprint> state_fingerprint(const LoadedModel& model,
                                             const state::Layout& layout) {
  FingerprintBuilder builder = KVANT_TRY(FingerprintBuilder::create());
  add_config(builder, model.config);
  const auto tensors = model.weights->tensors();
  builder.add("weights.tensors", static_cast<std::int64_t>(tensors.size()));
  for (const TensorInfo* tensor : tensors) add_tensor(builder, *tensor);
  add_layout(builder, layout);
  return builder.finish();
}

}  // namespace kvant::model
