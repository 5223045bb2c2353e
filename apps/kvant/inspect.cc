// kvant inspect: what is in a safetensors file, a state file (inspect_state.cc) or a model
// directory.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "apps/kvant/inspect_state.h"
#include "apps/kvant/json.h"
#include "apps/kvant/text.h"
#include "apps/kvant/verbs.h"
#include "kvant/base/file.h"
#include "kvant/model/config.h"
#include "kvant/model/safetensors.h"
#include "kvant/model/weight_set.h"
#include "kvant/state/state_file.h"

namespace kvant::app {
namespace {

// Names come from files: whatever is in them, a line stays a line.
constexpr std::size_t kMaxNameBytes = 200;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Bytes bytes_of(const model::TensorInfo& tensor) {
  return Bytes(static_cast<std::int64_t>(tensor.data.size()));
}

std::string tensor_line(const model::TensorInfo& tensor) {
  return fmt::format("{:<6} {:<20} {:>14}  {}\n", name_of(tensor.dtype), shape_text(tensor.shape),
                     tensor.data.size(), escape_for_display(tensor.name, kMaxNameBytes));
}

Json::Object tensor_json(const model::TensorInfo& tensor) {
  return {{"name", tensor.name},
          {"dtype", name_of(tensor.dtype)},
          {"shape", json_of(tensor.shape)},
          {"bytes", bytes_of(tensor)}};
}

// Sums by element type.
struct Totals {
  std::int64_t n_tensors = 0;
  Elements elements{0};
  Bytes bytes{0};
};
using TotalsByType = std::map<std::string_view, Totals>;

void count(const model::TensorInfo& tensor, TotalsByType& totals) {
  Totals& sum = totals[name_of(tensor.dtype)];
  sum.n_tensors += 1;
  sum.elements += tensor.n_elements();
  sum.bytes += bytes_of(tensor);
}

std::string totals_text(const TotalsByType& totals) {
  std::string out;
  for (const auto& [dtype, sum] : totals) {
    out +=
        fmt::format("{}: {}, {} numbers, {} bytes ({})\n", dtype, counted(sum.n_tensors, "tensor"),
                    sum.elements.value(), sum.bytes.value(), bytes_text(sum.bytes));
  }
  return out;
}

Json::Object totals_json(const TotalsByType& totals) {
  Json::Object out;
  for (const auto& [dtype, sum] : totals) {
    out.emplace_back(
        std::string(dtype),
        Json::Object{{"tensors", sum.n_tensors}, {"numbers", sum.elements}, {"bytes", sum.bytes}});
  }
  return out;
}

NamedResult<int> inspect_file(const InspectOptions& options, Streams& streams) {
  {
    const MappedFile bytes = KVANT_TRY(MappedFile::open(options.path));
    if (state::StateFile::is_state_file(bytes.bytes())) {
      const std::string text = KVANT_TRY(describe_state_file(bytes, options.output));
      streams.print(text);
      return kOk;
    }
  }
  const auto file = KVANT_TRY(model::SafetensorsFile::open(options.path));
  TotalsByType totals;
  for (const model::TensorInfo& tensor : file.tensors()) count(tensor, totals);
  if (options.output == OutputForm::kJson) {
    Json::Array tensors;
    for (const model::TensorInfo& tensor : file.tensors()) {
      tensors.emplace_back(tensor_json(tensor));
    }
    Json::Object metadata;
    for (const auto& [key, value] : file.metadata()) metadata.emplace_back(key, value);
    streams.print(to_text(Json::Object{{"format", "safetensors"},
                                       {"metadata", std::move(metadata)},
                                       {"tensors", std::move(tensors)},
                                       {"totals", totals_json(totals)}}));
    return kOk;
  }
  std::string out;
  for (const auto& [key, value] : file.metadata()) {
    out += fmt::format("{} = {}\n", escape_for_display(key, kMaxNameBytes),
                       escape_for_display(value, kMaxNameBytes));
  }
  for (const model::TensorInfo& tensor : file.tensors()) out += tensor_line(tensor);
  streams.print(out + totals_text(totals));
  return kOk;
}

std::string config_text(const model::ModelConfig& config) {
  std::string kinds;
  for (const model::LayerConfig& layer : config.layers) {
    kinds += layer.kind == model::LayerKind::kAttention ? 'A' : 'c';
  }
  return fmt::format(
      "architecture       {}\n"
      "layers             {} ({}; A attention, c short convolution)\n"
      "hidden size        {}\n"
      "heads              {} of {} numbers\n"
      "KV heads           {} in all layers together\n"
      "feed-forward       {}\n"
      "convolution        width {}{}\n"
      "vocabulary         {}, {}\n"
      "context            {}\n"
      "RoPE theta         {}\n"
      "end ids            {}\n",
      name_of(config.architecture), config.n_layers(), kinds, config.hidden_size, config.n_heads,
      config.head_dim,
      [&] {
        std::int64_t sum = 0;
        for (const model::LayerConfig& layer : config.layers) sum += layer.n_kv_heads;
        return sum;
      }(),
      config.ffn_dim, config.conv_width, config.conv_bias ? " with bias" : "", config.vocab_size,
      config.tie_word_embeddings ? "tied" : "with a head of its own", config.context_length,
      config.rope_theta, fmt::join(config.eos_ids, " "));
}

Json::Object config_json(const model::ModelConfig& config) {
  Json::Array layers;
  for (const model::LayerConfig& layer : config.layers) {
    layers.emplace_back(
        Json::Object{{"kind", name_of(layer.kind)}, {"n_kv_heads", layer.n_kv_heads}});
  }
  return {{"architecture", name_of(config.architecture)},
          {"vocab_size", config.vocab_size},
          {"hidden_size", config.hidden_size},
          {"n_heads", config.n_heads},
          {"head_dim", config.head_dim},
          {"ffn_dim", config.ffn_dim},
          {"conv_width", config.conv_width},
          {"conv_bias", config.conv_bias},
          {"tie_word_embeddings", config.tie_word_embeddings},
          {"norm_eps", static_cast<double>(config.norm_eps)},
          {"rope_theta", config.rope_theta},
          {"context_length", config.context_length},
          {"eos_ids", json_of(config.eos_ids)},
          {"layers", std::move(layers)}};
}

NamedResult<int> inspect_model(const InspectOptions& options, Streams& streams) {
  const auto config = KVANT_TRY(model::read_config(options.path));
  const auto weights = KVANT_TRY(model::WeightSet::open(options.path));
  TotalsByType totals;
  for (const model::TensorInfo* tensor : weights.tensors()) count(*tensor, totals);
  if (options.output == OutputForm::kText) {
    streams.print(config_text(config) + totals_text(totals));
    return kOk;
  }
  Json::Array files;
  for (const model::SafetensorsFile& file : weights.files()) files.emplace_back(file.path());
  streams.print(to_text(Json::Object{{"format", "model directory"},
                                     {"config", config_json(config)},
                                     {"files", std::move(files)},
                                     {"totals", totals_json(totals)}}));
  return kOk;
}

}  // namespace

int run_verb(const InspectOptions& options, Streams& streams) {
  std::error_code unknown;  // a path that cannot be looked at is reported by the reader
  const auto code = std::filesystem::is_directory(options.path, unknown)
                        ? inspect_model(options, streams)
                        : inspect_file(options, streams);
  return code ? *code : streams.fail(code.error());
}

}  // namespace kvant::app
