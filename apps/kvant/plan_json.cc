#include "apps/kvant/plan_report.h"

namespace kvant::app {
namespace {

Json::Array components_json(const state::Plan& plan) {
  Json::Array out;
  for (std::size_t i = 0; i < plan.components.size(); ++i) {
    const state::ComponentPlan& component = plan.components[i];
    out.emplace_back(Json::Object{{"layer", component.layer.value()},
                                  {"kind", name_of(component.kind)},
                                  {"discipline", name_of(component.discipline)},
                                  {"ratio", plan.geometry.components[i].spec.ratio},
                                  {"dtype", name_of(component.dtype)},
                                  {"shape", json_of(component.shape)},
                                  {"logical_bytes", component.logical_bytes},
                                  {"pool_bytes", pool_bytes_of(plan, i)}});
  }
  return out;
}

Json::Array groups_json(const state::Plan& plan) {
  Json::Array out;
  for (std::size_t i = 0; i < plan.geometry.groups.size(); ++i) {
    const state::PageGroup& group = plan.geometry.groups[i];
    out.emplace_back(Json::Object{{"kind", name_of(group.codec)},
                                  {"window", group.window},
                                  {"bytes_per_page", group.page_bytes},
                                  {"pages_per_sequence", plan.group_pages[i]}});
  }
  return out;
}

Json::Array buffers_json(const std::vector<state::LogicalBuffer>& buffers) {
  Json::Array out;
  for (const state::LogicalBuffer& buffer : buffers) {
    Json::Object object = {{"layer", buffer.layer.value()},
                           {"kind", name_of(buffer.kind)},
                           {"dtype", name_of(buffer.dtype)},
                           {"shape", json_of(buffer.shape())},
                           {"bytes", buffer.bytes}};
    if (buffer.view_offset) object.emplace_back("view_offset", *buffer.view_offset);
    out.emplace_back(std::move(object));
  }
  return out;
}

Json::Object shift_json(const state::Layout& layout) {
  Json::Array obstacles;
  const std::vector<ShiftBar> bars = shift_bars(layout);
  for (const ShiftBar& bar : bars) {
    obstacles.emplace_back(Json::Object{
        {"kind", name_of(bar.kind)}, {"layers", json_of(bar.layers)}, {"reason", bar.reason}});
  }
  return {{"possible", bars.empty()}, {"obstacles", std::move(obstacles)}};
}

}  // namespace

Json::Object plan_json(const PlanReport& report) {
  const state::Plan& state = report.plan.state;
  Json::Object out = {{"architecture", report.architecture},
                      {"planned_only", !report.planned_only.empty()},
                      {"n_layers", static_cast<std::int64_t>(state.layout.layers.size())},
                      {"context", state.request.context},
                      {"context_length", report.context_length},
                      {"n_sequences", state.request.n_sequences},
                      {"chunk", state.request.max_step}};
  if (report.budget) out.emplace_back("budget_bytes", *report.budget);
  if (report.planned_only.empty()) {
    out.emplace_back("n_threads", report.plan.workspace_shape.n_threads);
  }
  out.insert(out.end(), {{"page_positions", state.geometry.page_positions},
                         {"pages_per_sequence", state.pages_per_sequence},
                         {"page_groups", groups_json(state)},
                         {"components", components_json(state)},
                         {"logical_buffers", buffers_json(report.buffers)},
                         {"logical_bytes", state.logical_bytes},
                         {"logical_snapshot_bytes", state.logical_fixed_bytes()},
                         {"diverging_bytes", state.diverging_bytes},
                         {"rollback_positions", state.request.max_rollback},
                         {"rollback_bytes", state.rollback_bytes()},
                         {"context_shift", shift_json(state.layout)},
                         {"pages_bytes", state.page_bytes},
                         {"recurrent_bytes", state.recurrent_bytes},
                         {"snapshots_bytes", state.snapshot_bytes},
                         {"tables_bytes", state.table_bytes}});
  if (report.planned_only.empty()) {
    out.emplace_back("scratch_bytes", report.plan.workspace_bytes);
    out.emplace_back("session_bytes", report.plan.session_bytes);
  }
  out.emplace_back("pool_bytes", state.pool_bytes);
  out.emplace_back("total_bytes", report.plan.total());
  return out;
}

}  // namespace kvant::app
