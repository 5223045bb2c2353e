#include "apps/kvant/figures.h"

#include <fmt/format.h>

#include "apps/kvant/text.h"
#include "kvant/base/system_memory.h"

namespace kvant::app {

Bytes peak_rss() { return kernel_figure("/proc/self/status", "VmHWM"); }

double rate(std::int64_t n, double seconds) {
  return seconds > 0.0 ? static_cast<double>(n) / seconds : 0.0;
}

std::string speed_text(const engine::Figures& figures) {
  return fmt::format("prompt {} at {:.1f} tokens/s, reply {} at {:.1f} tokens/s",
                     counted(figures.prefill_tokens, "token"),
                     rate(figures.prefill_tokens, figures.prefill_seconds),
                     counted(figures.decode_tokens, "token"),
                     rate(figures.decode_tokens, figures.decode_seconds));
}

std::string memory_text(const engine::Session& session) {
  const engine::MemoryPlan& plan = session.memory_plan();
  return fmt::format(
      "memory: planned {} (state {}, scratch {}, session {}), allocated {}, weights {}, peak RSS "
      "{}",
      bytes_text(plan.total()), bytes_text(plan.state.total_bytes()),
      bytes_text(plan.workspace_bytes), bytes_text(plan.session_bytes),
      bytes_text(session.allocated_bytes()), bytes_text(session.model().weights->data_bytes()),
      bytes_text(peak_rss()));
}

Json::Object figures_json(const engine::Session& session) {
  const engine::Figures& figures = session.figures();
  const engine::MemoryPlan& plan = session.memory_plan();
  return {
      {"prefill_tokens", figures.prefill_tokens},
      {"prefill_seconds", figures.prefill_seconds},
      {"prefill_tokens_per_second", rate(figures.prefill_tokens, figures.prefill_seconds)},
      {"decode_tokens", figures.decode_tokens},
      {"decode_seconds", figures.decode_seconds},
      {"decode_tokens_per_second", rate(figures.decode_tokens, figures.decode_seconds)},
      {"shifts", figures.n_shifts},
      {"rebuilds", figures.n_rebuilds},
      {"lineage", name_of(session.lineage())},
      {"planned_bytes", plan.total()},
      {"planned_state_bytes", plan.state.total_bytes()},
      {"planned_workspace_bytes", plan.workspace_bytes},
      {"planned_session_bytes", plan.session_bytes},
      {"allocated_bytes", session.allocated_bytes()},
      {"state_bytes", session.state_bytes()},
      {"weight_bytes", session.model().weights->data_bytes()},
      {"owned_weight_bytes", session.model().network->owned_weight_bytes()},
      {"peak_rss_bytes", peak_rss()},
  };
}

}  // namespace kvant::app
