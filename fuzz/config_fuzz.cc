// Any config.json is either refused or keeps the invariants that kvant/model/config.h promises, and
// what a state looks like is read from it or refused too, and planned or refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kvant/model/config.h"
#include "kvant/model/state_config.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void plan_whatever_it_is(std::string_view text) {
  using namespace kvant;
  const auto config = model::parse_state_config({.name = "config.json", .text = text});
  if (!config) {
    require(!describe(config.error()).empty());
    return;
  }
  require(config->n_layers >= 1 && config->n_layers <= model::limits::kLayersMax);
  require(config->n_ignored_ratios() >= 0);
  const model::RowKinds rows{.keys = config->usual_rows(), .values = config->usual_rows()};
  for (const std::int64_t context : {std::int64_t{1}, config->context_length}) {
    const auto plan = model::plan_state(*config, rows, {.context = Tokens(context)});
    require(plan ? plan->logical_bytes >= Bytes(0) : !describe(plan.error()).empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvant::model;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  plan_whatever_it_is(text);
  auto config = parse_config({.name = "config.json", .text = text});
  if (!config) {
    require(!describe(config.error()).empty());
    return 0;
  }
  require(config->n_layers() >= 1 && config->n_layers() <= limits::kLayersMax);
  require(config->head_dim >= 2 && config->head_dim % 2 == 0);
  require(config->conv_width >= 2 && config->conv_width <= limits::kConvWidthMax);
  require(config->ffn_dim >= 1 && config->ffn_dim <= limits::kFfnDimMax + limits::kFfnDimMax);
  require(config->norm_eps > 0.0F && config->rope_theta > 1.0);
  for (const LayerConfig& layer : config->layers) {
    const bool attends = layer.kind == LayerKind::kAttention;
    require(attends ? layer.n_kv_heads >= 1 && config->n_heads % layer.n_kv_heads == 0
                    : layer.n_kv_heads == 0);
  }
  static_cast<void>(
      merge_generation_config({.name = "generation_config.json", .text = text}, *config));
  for (const auto id : config->eos_ids) require(id >= 0 && id < config->vocab_size);
  return 0;
}
