// kvant plan: the exact bytes of a context; or the longest context, or the most sequences, that fit
// some bytes. From a config.json alone, also of models that this version cannot run.
#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <utility>

#include "apps/kvant/opened_model.h"
#include "apps/kvant/plan_report.h"
#include "apps/kvant/text.h"
#include "apps/kvant/verbs.h"
#include "kvant/base/file.h"
#include "kvant/base/system_memory.h"

namespace kvant::app {
namespace {

// Reads a config.json by its own name or by that of its directory.
template <class Config>
struct ConfigReader {
  NamedResult<Config> (*of_directory)(const std::string& directory);
  NamedResult<Config> (*of_text)(model::JsonText json);
};

template <class Config>
NamedResult<Config> read_config_of(const std::string& path, const ConfigReader<Config>& reader) {
  constexpr Bytes kMaxConfigBytes{64 << 20};
  std::error_code unknown;  // an unreadable path is reported by whoever reads it
  if (!std::filesystem::is_regular_file(path, unknown)) return reader.of_directory(path);
  const std::string text = KVANT_TRY(read_text_file(path, kMaxConfigBytes));
  return reader.of_text({.name = path, .text = text});
}

// Finds what the options leave open and plans it. Config: a model::ModelConfig or StateConfig.
template <class Config>
NamedResult<engine::MemoryPlan> make_plan(const Config& config, const PlanOptions& options,
                                          codec::Kind usual_rows) {
  engine::MemoryOptions memory = memory_options(options.state);
  if (!options.state.kv.given) memory.keys = memory.values = usual_rows;
  memory.n_sequences = options.n_sequences.value_or(1);
  memory.max_rollback = options.rollback;
  memory.n_threads = threads_or_default(options.n_threads);
  // A plan for another machine is no error; only a limit that somebody gave can be broken.
  if (!memory.memory_limit) {
    memory.memory_limit = Bytes(std::numeric_limits<std::int64_t>::max());
  }
  if (options.budget && memory.context) {
    memory.n_sequences = KVANT_TRY(engine::most_sequences(config, memory, *options.budget));
  } else if (options.budget) {
    memory.context = KVANT_TRY(engine::longest_context(config, memory, *options.budget));
  }
  return engine::plan_memory(config, memory);
}

NamedResult<PlanReport> report_runnable(const model::ModelConfig& config,
                                        const PlanOptions& options) {
  auto plan = KVANT_TRY(make_plan(config, options, KvOptions{}.keys));
  return PlanReport{
      .architecture = std::string(name_of(config.architecture)),
      .about = fmt::format("{} layers ({} attention, {} short convolution), hidden size {},"
                           " vocabulary {}",
                           config.n_layers(), config.n_layers_of(model::LayerKind::kAttention),
                           config.n_layers_of(model::LayerKind::kShortConv), config.hidden_size,
                           config.vocab_size),
      .context_length = config.context_length,
      .planned_only = {},
      .plan = std::move(plan)};
}

// `refusal` is why the model cannot run.
NamedResult<PlanReport> report_planned_only(const PlanOptions& options, const NamedError& refusal,
                                            Streams& streams) {
  const auto config = KVANT_TRY(read_config_of<model::StateConfig>(
      options.model, {model::read_state_config, model::parse_state_config}));
  if (config.n_ignored_ratios() > 0) {
    streams.note(
        fmt::format("config.json has {} compress ratios for {} layers; those beyond the"
                    " layers are ignored",
                    config.n_layers + config.n_ignored_ratios(), config.n_layers));
  }
  auto plan = KVANT_TRY(make_plan(config, options, config.usual_rows()));
  const bool is_known = config.model_type == name_of(model::Architecture::kLfm2);
  return PlanReport{
      .architecture = config.model_type,
      .about = counted(config.n_layers, "layer"),
      .context_length = config.context_length,
      .planned_only = is_known ? fmt::format("this version cannot run it ({})", refusal.detail())
                               : fmt::format("this version cannot run {}", config.model_type),
      .plan = std::move(plan)};
}

NamedResult<PlanReport> make_report(const PlanOptions& options, Streams& streams) {
  const auto config =
      read_config_of<model::ModelConfig>(options.model, {model::read_config, model::parse_config});
  if (config) return report_runnable(*config, options);
  if (config.error().code() != ErrorCode::kUnsupportedModel) return config.error();
  return report_planned_only(options, config.error(), streams);
}

NamedResult<int> print_plan(const PlanOptions& options, Streams& streams) {
  PlanReport report = KVANT_TRY(make_report(options, streams));
  auto buffers = state::logical_buffers(report.plan.state);
  if (!buffers) return NamedError(buffers.error());
  report.buffers = std::move(*buffers);
  report.budget = options.budget;
  streams.print(options.output == OutputForm::kJson ? to_text(plan_json(report))
                                                    : plan_text(report, options));
  if (!options.state.ram && report.plan.total() > physical_memory()) {
    streams.note(fmt::format("this machine has {}, less than the plan needs",
                             bytes_text(physical_memory())));
  }
  return kOk;
}

}  // namespace

int run_verb(const PlanOptions& options, Streams& streams) {
  if (options.budget && options.state.context && options.n_sequences) {
    return streams.fail_usage("--budget, --ctx and --seqs: leave out the one to be found");
  }
  const auto code = print_plan(options, streams);
  return code ? *code : streams.fail(code.error());
}

}  // namespace kvant::app
