// kvant plan: the exact bytes of a context, or the longest context that fits some bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "apps/kvant/json.h"
#include "apps/kvant/opened_model.h"
#include "apps/kvant/text.h"
#include "apps/kvant/verbs.h"
#include "kvant/base/file.h"
#include "kvant/base/system_memory.h"

namespace kvant::app {
namespace {

constexpr Bytes kMaxConfigBytes{64 << 20};

NamedResult<model::ModelConfig> read_config_of(const std::string& path) {
  std::error_code unknown;  // an unreadable path is reported by whoever reads it
  if (!std::filesystem::is_regular_file(path, unknown)) return model::read_config(path);
  const std::string text = KVANT_TRY(read_text_file(path, kMaxConfigBytes));
  return model::parse_config({.name = path, .text = text});
}

// Equal components of several layers.
struct Line {
  state::ComponentPlan component;
  std::vector<std::int64_t> layers;
};

std::vector<Line> lines_of(const state::Plan& plan, bool every_layer) {
  std::vector<Line> lines;
  for (const state::ComponentPlan& component : plan.components) {
    const auto same = std::ranges::find_if(lines, [&](const Line& line) {
      return !every_layer && line.component.kind == component.kind &&
             line.component.dtype == component.dtype && line.component.shape == component.shape;
    });
    if (same != lines.end()) {
      same->layers.push_back(component.layer.value());
    } else {
      lines.push_back({.component = component, .layers = {component.layer.value()}});
    }
  }
  return lines;
}

// "2 4 6 8", or "0-9" for neighbours.
std::string layers_text(const std::vector<std::int64_t>& layers) {
  std::string out;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) end += 1;
    if (!out.empty()) out += ' ';
    out += end - i < 3 ? fmt::format("{}", layers[i])
                       : fmt::format("{}-{}", layers[i], layers[end - 1]);
    i = end - i < 3 ? i + 1 : end;
  }
  return out;
}

// One part of the total, as in MemoryPlan.
struct Part {
  const char* name;
  Bytes bytes;
  const char* about;
};

std::vector<Part> parts_of(const engine::MemoryPlan& plan) {
  return {{"pages", plan.state.page_bytes, "keys and values, whole pages"},
          {"recurrent", plan.state.recurrent_bytes, "blocks of the sequences, and initial values"},
          {"snapshots", plan.state.snapshot_bytes, "copies when sequences go on"},
          {"tables", plan.state.table_bytes, "page tables"},
          {"scratch", plan.workspace_bytes, "working buffers of a pass"},
          {"session", plan.session_bytes, "token lists and logits"}};
}

std::string table_text(const engine::MemoryPlan& plan, const PlanOptions& options) {
  std::string out = fmt::format("{:<24} {:<12} {:<10} {:<5} {:<18} {:>14}\n", "layers", "kind",
                                "discipline", "type", "shape", "bytes");
  for (const Line& line : lines_of(plan.state, options.every_layer)) {
    const state::ComponentPlan& component = line.component;
    const auto n = static_cast<std::int64_t>(line.layers.size());
    out += fmt::format("{:<24} {:<12} {:<10} {:<5} {:<18} {:>14}\n", layers_text(line.layers),
                       name_of(component.kind), name_of(component.discipline),
                       name_of(component.dtype), component.shape_text(),
                       (component.logical_bytes * n).value());
  }
  out += fmt::format("{:<24} {:>62}\n", "rows of one sequence", plan.state.logical_bytes.value());
  return out;
}

std::string parts_text(const engine::MemoryPlan& plan) {
  constexpr double kBarWidth = 40.0;
  std::string out = fmt::format("\n{:<10} {:>16}\n", "memory", "bytes");
  const auto total = static_cast<double>(plan.total().value());
  for (const Part& part : parts_of(plan)) {
    if (part.bytes.value() == 0) continue;
    const auto width = std::lround(kBarWidth * static_cast<double>(part.bytes.value()) / total);
    out += fmt::format("{:<10} {:>16} {:>10}  {:<40}  {}\n", part.name, part.bytes.value(),
                       bytes_text(part.bytes), std::string(static_cast<std::size_t>(width), '#'),
                       part.about);
  }
  out += fmt::format("{:<10} {:>16} {:>10}\n", "total", plan.total().value(),
                     bytes_text(plan.total()));
  return out;
}

std::string plan_text(const model::ModelConfig& config, const engine::MemoryPlan& plan,
                      const PlanOptions& options) {
  const state::PlanRequest& request = plan.state.request;
  std::string out = fmt::format(
      "{}: {} layers ({} attention, {} short convolution), hidden size {}, vocabulary {}\n"
      "context {} of {} positions, {}, pages of {} positions, chunks of {}, {}\n\n",
      name_of(config.architecture), config.n_layers(),
      config.n_layers_of(model::LayerKind::kAttention),
      config.n_layers_of(model::LayerKind::kShortConv), config.hidden_size, config.vocab_size,
      request.context.value(), config.context_length, counted(request.n_sequences, "sequence"),
      plan.state.geometry.page_positions.value(), plan.workspace_shape.max_rows.value(),
      counted(plan.workspace_shape.n_threads, "thread"));
  return out + table_text(plan, options) + parts_text(plan);
}

Json::Object plan_json(const model::ModelConfig& config, const engine::MemoryPlan& plan) {
  Json::Array components;
  for (const state::ComponentPlan& component : plan.state.components) {
    components.emplace_back(Json::Object{{"layer", component.layer.value()},
                                         {"kind", name_of(component.kind)},
                                         {"discipline", name_of(component.discipline)},
                                         {"dtype", name_of(component.dtype)},
                                         {"shape", json_of(component.shape)},
                                         {"logical_bytes", component.logical_bytes}});
  }
  Json::Array groups;
  for (const state::PageGroup& group : plan.state.geometry.groups) {
    groups.emplace_back(
        Json::Object{{"kind", name_of(group.codec)}, {"bytes_per_page", group.page_bytes}});
  }
  Json::Object out = {{"architecture", name_of(config.architecture)},
                      {"n_layers", config.n_layers()},
                      {"context", plan.state.request.context},
                      {"context_length", config.context_length},
                      {"n_sequences", plan.state.request.n_sequences},
                      {"chunk", plan.workspace_shape.max_rows},
                      {"n_threads", plan.workspace_shape.n_threads},
                      {"page_positions", plan.state.geometry.page_positions},
                      {"pages_per_sequence", plan.state.pages_per_sequence},
                      {"page_groups", std::move(groups)},
                      {"components", std::move(components)},
                      {"logical_bytes", plan.state.logical_bytes}};
  for (const Part& part : parts_of(plan)) {
    out.emplace_back(std::string(part.name) + "_bytes", part.bytes);
  }
  out.emplace_back("pool_bytes", plan.state.pool_bytes);
  out.emplace_back("total_bytes", plan.total());
  return out;
}

NamedResult<int> make_plan(const PlanOptions& options, Streams& streams) {
  const auto config = KVANT_TRY(read_config_of(options.model));
  engine::MemoryOptions memory = memory_options(options.state);
  memory.n_sequences = options.n_sequences;
  memory.n_threads = threads_or_default(options.n_threads);
  // A plan for another machine is no error; only a limit that somebody gave can be broken.
  if (!memory.memory_limit) {
    memory.memory_limit = Bytes(std::numeric_limits<std::int64_t>::max());
  }
  if (options.budget) {
    memory.context = KVANT_TRY(engine::longest_context(config, memory, *options.budget));
  }
  const auto plan = KVANT_TRY(engine::plan_memory(config, memory));
  streams.print(options.output == OutputForm::kJson ? to_text(plan_json(config, plan))
                                                    : plan_text(config, plan, options));
  if (!options.state.ram && plan.total() > physical_memory()) {
    streams.note(fmt::format("this machine has {}, less than the plan needs",
                             bytes_text(physical_memory())));
  }
  return kOk;
}

}  // namespace

int run_verb(const PlanOptions& options, Streams& streams) {
  const auto code = make_plan(options, streams);
  return code ? *code : streams.fail(code.error());
}

}  // namespace kvant::app
