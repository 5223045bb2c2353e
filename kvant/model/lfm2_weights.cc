#include <fmt/format.h>

#include <cstring>
#include <initializer_list>
#include <new>
#include <string>
#include <utility>

#include "kvant/kernels/dispatch.h"
#include "kvant/model/decoder_weights.h"

namespace kvant::model {
namespace {

// Numbers of the owned buffer, known from the config alone.
std::int64_t owned_floats(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  std::int64_t n = hidden;  // final norm
  for (const LayerConfig& layer : config.layers) {
    n += 2 * hidden;
    if (layer.kind == LayerKind::kAttention) {
      n += 2 * config.head_dim;
    } else {
      n += (config.conv_width + (config.conv_bias ? 5 : 0)) * hidden;  // taps; conv, in, out biases
    }
  }
  return n;
}

class Lfm2Loader {
 public:
  Lfm2Loader(const ModelConfig& config, DecoderWeights& weights)
      : config_(config), weights_(weights), widen_(kernels::best_table().widen) {}

  NamedStatus load() {
    const std::int64_t vocab = config_.vocab_size;
    weights_.embedding = KVANT_TRY(matrix("model.embed_tokens.weight", vocab, hidden()));
    weights_.head = config_.tie_word_embeddings
                        ? weights_.embedding
                        : KVANT_TRY(matrix("lm_head.weight", vocab, hidden()));
    weights_.final_norm = KVANT_TRY(vector("model.embedding_norm.weight", hidden()));
    for (std::int64_t i = 0; i < config_.n_layers(); ++i) {
      weights_.layers.push_back(KVANT_TRY(layer(i)));
    }
    return {};
  }

 private:
  std::int64_t hidden() const { return config_.hidden_size; }

  NamedResult<LayerWeights> layer(std::int64_t index) {
    const LayerConfig& spec = config_.layers[static_cast<std::size_t>(index)];
    const std::string prefix = fmt::format("model.layers.{}.", index);
    LayerWeights out{.kind = spec.kind};
    out.operator_norm = KVANT_TRY(vector(prefix + "operator_norm.weight", hidden()));
    if (spec.kind == LayerKind::kAttention) {
      out.attention = KVANT_TRY(attention(prefix + "self_attn.", spec.n_kv_heads));
    } else {
      out.conv = KVANT_TRY(short_conv(prefix + "conv."));
    }
    out.ffn_norm = KVANT_TRY(vector(prefix + "ffn_norm.weight", hidden()));
    const std::string ffn = prefix + "feed_forward.";
    out.gate = KVANT_TRY(matrix(ffn + "w1.weight", config_.ffn_dim, hidden()));
    out.up = KVANT_TRY(matrix(ffn + "w3.weight", config_.ffn_dim, hidden()));
    out.down = KVANT_TRY(matrix(ffn + "w2.weight", hidden(), config_.ffn_dim));
    return out;
  }

  NamedResult<AttentionWeights> attention(const std::string& prefix, std::int64_t n_kv_heads) {
    const std::int64_t q_width = config_.n_heads * config_.head_dim;
    const std::int64_t kv_width = n_kv_heads * config_.head_dim;
    AttentionWeights out;
    out.q = KVANT_TRY(matrix(prefix + "q_proj.weight", q_width, hidden()));
    out.k = KVANT_TRY(matrix(prefix + "k_proj.weight", kv_width, hidden()));
    out.v = KVANT_TRY(matrix(prefix + "v_proj.weight", kv_width, hidden()));
    out.out = KVANT_TRY(matrix(prefix + "out_proj.weight", hidden(), q_width));
    out.q_norm = KVANT_TRY(vector(prefix + "q_layernorm.weight", config_.head_dim));
    out.k_norm = KVANT_TRY(vector(prefix + "k_layernorm.weight", config_.head_dim));
    return out;
  }

  NamedResult<ShortConvWeights> short_conv(const std::string& prefix) {
    ShortConvWeights out;
    out.in = KVANT_TRY(matrix(prefix + "in_proj.weight", 3 * hidden(), hidden()));
    out.out = KVANT_TRY(matrix(prefix + "out_proj.weight", hidden(), hidden()));
    out.taps = KVANT_TRY(taps(prefix + "conv.weight"));
    if (config_.conv_bias) {
      out.bias = KVANT_TRY(vector(prefix + "conv.bias", hidden()));
      out.in.bias = KVANT_TRY(vector(prefix + "in_proj.bias", 3 * hidden()));
      out.out.bias = KVANT_TRY(vector(prefix + "out_proj.bias", hidden()));
    }
    return out;
  }

  NamedResult<const TensorInfo*> require(const std::string& name,
                                         std::initializer_list<std::int64_t> shape) {
    const TensorInfo* info = KVANT_TRY(weights_.files->require(name, shape));
    if (!tensor::is_float(info->dtype)) {
      return NamedError(
          Error{.code = ErrorCode::kUnknownDtype},
          fmt::format("{} is {}, must be f32, f16 or bf16", name, tensor::name_of(info->dtype)));
    }
    return info;
  }

  NamedResult<kernels::Weight> matrix(const std::string& name, std::int64_t n_columns,
                                      std::int64_t width) {
    const TensorInfo* info = KVANT_TRY(require(name, {n_columns, width}));
    return kernels::Weight{
        .data = info->data.data(), .dtype = info->dtype, .n_columns = n_columns, .width = width};
  }

  // The next n numbers of the owned buffer, whose size owned_floats has counted.
  float* take(std::int64_t n) {
    float* place = weights_.owned.data() + used_;
    used_ += n;
    KVANT_CHECK(static_cast<std::size_t>(used_) <= weights_.owned.size());
    return place;
  }

  NamedResult<const float*> vector(const std::string& name, std::int64_t n) {
    const TensorInfo* info = KVANT_TRY(require(name, {n}));
    float* place = take(n);
    widen_(info->dtype, info->data.data(), n, place);
    return static_cast<const float*>(place);
  }

  // [hidden, 1, width] in the file, [width, hidden] for the kernel.
  NamedResult<const float*> taps(const std::string& name) {
    const std::int64_t width = config_.conv_width;
    const TensorInfo* info = KVANT_TRY(require(name, {hidden(), 1, width}));
    float* place = take(width * hidden());
    const std::int64_t element = tensor::bytes_of(info->dtype);
    for (std::int64_t channel = 0; channel < hidden(); ++channel) {
      for (std::int64_t k = 0; k < width; ++k) {
        widen_(info->dtype, info->data.data() + (channel * width + k) * element, 1,
               place + k * hidden() + channel);
      }
    }
    return static_cast<const float*>(place);
  }

  const ModelConfig& config_;
  DecoderWeights& weights_;
  void (*widen_)(tensor::Dtype, const std::byte*, std::int64_t, float*);
  std::int64_t used_ = 0;
};

}  // namespace

NamedResult<DecoderWeights> load_lfm2_weights(const ModelConfig& config,
                                              std::shared_ptr<const WeightSet> files) {
  DecoderWeights weights{.files = std::move(files)};
  // An absurd config must not make us reserve more than its files could fill: nothing that is
  // copied has less than two bytes a number there.
  const Bytes stored = weights.files->data_bytes();
  if (owned_floats(config) > stored.value() / 2) {
    return NamedError(Error{.code = ErrorCode::kByteSizeMismatch,
                            .actual = stored.size(),
                            .expected = static_cast<std::uint64_t>(2 * owned_floats(config))},
                      "weights files, norms and taps alone");
  }
  auto owned = tensor::Buffer<float>::create(Elements(owned_floats(config)));
  if (!owned) return NamedError(owned.error(), "norms and taps");
  weights.owned = std::move(*owned);
  try {
    weights.layers.reserve(config.layers.size());
    KVANT_TRY(Lfm2Loader(config, weights).load());
  } catch (const std::bad_alloc&) {
    return NamedError(Error{.code = ErrorCode::kOutOfMemory}, "table of weights");
  }
  return weights;
}

}  // namespace kvant::model
