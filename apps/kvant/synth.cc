#include "apps/kvant/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <string_view>

#include "apps/kvant/json.h"
#include "apps/kvant/output_file.h"
#include "kvant/base/prng.h"

namespace kvant::app {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

enum class Fill : std::uint8_t { kRandom, kOnes };

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  Fill fill = Fill::kRandom;

  std::int64_t n_elements() const {
    std::int64_t n = 1;
    for (const std::int64_t size : shape) n *= size;
    return n;
  }
};

bool is_attention(const Lfm2Shape& shape, std::int64_t layer) {
  return std::ranges::find(shape.attention_layers, layer) != shape.attention_layers.end();
}

std::vector<Tensor> tensors_of(const Lfm2Shape& shape) {
  const std::int64_t hidden = shape.hidden_size;
  const std::int64_t head_dim = hidden / shape.n_heads;
  const std::int64_t kv_size = shape.n_kv_heads * head_dim;
  std::vector<Tensor> out = {{"model.embed_tokens.weight", {shape.vocab_size, hidden}},
                             {"model.embedding_norm.weight", {hidden}, Fill::kOnes}};
  for (std::int64_t layer = 0; layer < shape.n_layers; ++layer) {
    const auto add = [&](std::string_view name, std::vector<std::int64_t> dims,
                         Fill fill = Fill::kRandom) {
      out.push_back({fmt::format("model.layers.{}.{}.weight", layer, name), std::move(dims), fill});
    };
    add("operator_norm", {hidden}, Fill::kOnes);
    add("ffn_norm", {hidden}, Fill::kOnes);
    add("feed_forward.w1", {shape.ffn_dim, hidden});
    add("feed_forward.w2", {hidden, shape.ffn_dim});
    add("feed_forward.w3", {shape.ffn_dim, hidden});
    if (is_attention(shape, layer)) {
      add("self_attn.q_proj", {hidden, hidden});
      add("self_attn.k_proj", {kv_size, hidden});
      add("self_attn.v_proj", {kv_size, hidden});
      add("self_attn.out_proj", {hidden, hidden});
      add("self_attn.q_layernorm", {head_dim}, Fill::kOnes);
      add("self_attn.k_layernorm", {head_dim}, Fill::kOnes);
    } else {
      add("conv.in_proj", {3 * hidden, hidden});
      add("conv.conv", {hidden, 1, shape.conv_width});
      add("conv.out_proj", {hidden, hidden});
    }
  }
  return out;
}

Json config_of(const Lfm2Shape& shape) {
  Json::Array kinds;
  for (std::int64_t layer = 0; layer < shape.n_layers; ++layer) {
    kinds.emplace_back(is_attention(shape, layer) ? "full_attention" : "conv");
  }
  return Json::Object{{"model_type", "lfm2"},
                      {"hidden_size", shape.hidden_size},
                      {"num_hidden_layers", shape.n_layers},
                      {"num_attention_heads", shape.n_heads},
                      {"num_key_value_heads", shape.n_kv_heads},
                      {"intermediate_size", shape.ffn_dim},
                      {"block_auto_adjust_ff_dim", false},
                      {"layer_types", std::move(kinds)},
                      {"conv_L_cache", shape.conv_width},
                      {"conv_bias", false},
                      {"norm_eps", 1e-5},
                      {"rope_theta", 1e6},
                      {"max_position_embeddings", shape.context_length},
                      {"vocab_size", shape.vocab_size},
                      {"tie_word_embeddings", true},
                      {"bos_token_id", 1},
                      {"eos_token_id", 7}};
}

// The JSON part with its length in front, padded so that the data begins on 64 bytes.
std::string header_of(const std::vector<Tensor>& tensors) {
  constexpr std::size_t kLengthBytes = 8;
  constexpr std::size_t kAlignment = 64;
  Json::Object members;
  std::int64_t end = 0;
  for (const Tensor& tensor : tensors) {
    const std::int64_t begin = end;
    end += tensor.n_elements() * 2;
    members.emplace_back(
        tensor.name, Json::Object{{"dtype", "BF16"},
                                  {"shape", Json::Array(tensor.shape.begin(), tensor.shape.end())},
                                  {"data_offsets", Json::Array{begin, end}}});
  }
  std::string json = to_text(members);
  json.resize(
      (json.size() + kLengthBytes + kAlignment - 1) / kAlignment * kAlignment - kLengthBytes, ' ');
  const auto length = std::bit_cast<std::array<char, kLengthBytes>>(std::uint64_t{json.size()});
  return std::string(length.data(), length.size()) + json;
}

// Numbers of both signs between 2^-7 and 2^-4, so that a matrix of a thousand columns neither
// swells nor starves what it multiplies.
void fill_random(std::span<std::uint16_t> out, Xoshiro256& random) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    bits = i % 4 == 0 ? random.next() : bits >> 16;
    const std::uint64_t sign_and_fraction = bits & 0x807FU;
    const std::uint64_t exponent = 120 + (bits >> 7 & 0xFFU) % 3;
    out[i] = static_cast<std::uint16_t>(sign_and_fraction | exponent << 7);
  }
}

NamedStatus write_weights(const std::vector<Tensor>& tensors, OutputFile& file) {
  constexpr std::int64_t kPiece = 1 << 19;  // numbers
  constexpr std::uint16_t kOne = 0x3F80;    // 1.0 in bf16
  constexpr std::uint64_t kSeed = 350;
  KVANT_TRY(file.write(header_of(tensors)));
  Xoshiro256 random(kSeed);
  std::vector<std::uint16_t> piece;
  for (const Tensor& tensor : tensors) {
    for (std::int64_t left = tensor.n_elements(); left > 0; left -= kPiece) {
      piece.assign(static_cast<std::size_t>(std::min(left, kPiece)), kOne);
      if (tensor.fill == Fill::kRandom) fill_random(piece, random);
      KVANT_TRY(file.write(std::as_bytes(std::span(piece))));
    }
  }
  return file.close();
}

}  // namespace

Lfm2Shape lfm2_350m() {
  return {.n_layers = 16,
          .attention_layers = {2, 5, 8, 10, 12, 14},
          .hidden_size = 1024,
          .n_heads = 16,
          .n_kv_heads = 8,
          .ffn_dim = 4608,
          .vocab_size = 65536,
          .conv_width = 3,
          .context_length = 128000};
}

NamedStatus write_random_model(const Lfm2Shape& shape, const std::string& directory) {
  auto config = KVANT_TRY(OutputFile::create(directory + "/config.json"));
  KVANT_TRY(config.write(to_text(config_of(shape))));
  KVANT_TRY(config.close());
  auto weights = KVANT_TRY(OutputFile::create(directory + "/model.safetensors"));
  return write_weights(tensors_of(shape), weights);
}

}  // namespace kvant::app
