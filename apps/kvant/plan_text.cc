// The table of a plan:
//
//   layers     kind           discipline  type  shape of a layer   bytes a layer   all   in the
//   pool
//
// and a bar for each part of the total.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "apps/kvant/plan_report.h"
#include "apps/kvant/text.h"

namespace kvant::app {
namespace {

// Equal components of several layers.
struct Line {
  state::ComponentPlan component;
  std::vector<std::int64_t> layers;
  std::int64_t ratio = 1;
  Bytes pool_bytes{0};  // of all its layers
};

std::vector<Line> lines_of(const state::Plan& plan, bool every_layer) {
  std::vector<Line> lines;
  for (std::size_t i = 0; i < plan.components.size(); ++i) {
    const state::ComponentPlan& component = plan.components[i];
    const std::int64_t ratio = plan.geometry.components[i].spec.ratio;
    auto same = std::ranges::find_if(lines, [&](const Line& line) {
      return !every_layer && line.component.kind == component.kind && line.ratio == ratio &&
             line.component.discipline == component.discipline &&
             line.component.dtype == component.dtype && line.component.shape == component.shape;
    });
    if (same == lines.end()) {
      lines.push_back({.component = component, .layers = {}, .ratio = ratio});
      same = lines.end() - 1;
    }
    same->layers.push_back(component.layer.value());
    same->pool_bytes += pool_bytes_of(plan, i);
  }
  return lines;
}

constexpr std::size_t kFirstNumber = 5;  // columns from here on are numbers
using Row = std::array<std::string, 8>;

std::string number(Bytes bytes) { return fmt::format("{}", bytes.value()); }

// Columns as wide as their widest cell, numbers to the right.
std::string aligned(const std::vector<Row>& rows) {
  std::array<std::size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) out += "  ";
      out += i < kFirstNumber ? fmt::format("{:<{}}", row[i], widths[i])
                              : fmt::format("{:>{}}", row[i], widths[i]);
    }
    out += '\n';
  }
  return out;
}

std::string table_text(const state::Plan& plan, const PlanOptions& options) {
  std::vector<Row> rows = {{"layers", "kind", "discipline", "type", "shape of a layer",
                            "bytes a layer", "of all", "in the pool"}};
  for (const Line& line : lines_of(plan, options.every_layer)) {
    const state::ComponentPlan& component = line.component;
    const auto n_layers = static_cast<std::int64_t>(line.layers.size());
    std::string discipline(name_of(component.discipline));
    if (line.ratio > 1) discipline += fmt::format(" 1:{}", line.ratio);
    rows.push_back({layers_text(line.layers), std::string(name_of(component.kind)), discipline,
                    std::string(name_of(component.dtype)), component.shape_text(),
                    number(component.logical_bytes), number(component.logical_bytes * n_layers),
                    number(line.pool_bytes)});
  }
  rows.push_back({"one sequence", "", "", "", "", "", number(plan.logical_bytes),
                  number(pool_bytes_of_sequence(plan))});
  return aligned(rows);
}

// One part of the total.
struct Part {
  std::string name;
  Bytes bytes{0};
  std::string_view about;
};

// Components by kind: pages of all sequences; blocks of all sequences and the initial values.
std::vector<Part> parts_of(const engine::MemoryPlan& memory) {
  const state::Plan& plan = memory.state;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < plan.components.size(); ++i) {
    const bool in_pages = plan.geometry.components[i].group >= 0;
    const std::string name(name_of(plan.components[i].kind));
    auto part = std::ranges::find(parts, name, &Part::name);
    if (part == parts.end()) {
      parts.push_back(
          {.name = name, .about = in_pages ? "rows, whole pages" : "blocks, and initial values"});
      part = parts.end() - 1;
    }
    part->bytes += pool_bytes_of(plan, i) * (plan.request.n_sequences + (in_pages ? 0 : 1));
  }
  parts.push_back({"snapshots", plan.snapshot_bytes, "copies when sequences go on"});
  parts.push_back({"tables", plan.table_bytes, "page tables"});
  parts.push_back({"scratch", memory.workspace_bytes, "working buffers of a pass"});
  parts.push_back({"session", memory.session_bytes, "token lists and logits"});
  std::erase_if(parts, [](const Part& part) { return part.bytes == Bytes(0); });
  return parts;
}

// "0 %" is said of nothing only.
std::string percent(double share) {
  return share > 0.0 && share < 0.005 ? "<1 %" : fmt::format("{:.0f} %", 100.0 * share);
}

std::string parts_text(const engine::MemoryPlan& memory) {
  constexpr double kBarWidth = 40.0;
  std::string out = fmt::format("\n{:<19} {:>14}\n", "where bytes go", "bytes");
  const auto total = static_cast<double>(memory.total().value());
  for (const Part& part : parts_of(memory)) {
    const double share = static_cast<double>(part.bytes.value()) / total;
    const std::string bar(static_cast<std::size_t>(std::lround(kBarWidth * share)), '#');
    out += fmt::format("{:<19} {:>14} {:>10} {:>5}  {:<40} {}\n", part.name, part.bytes.value(),
                       bytes_text(part.bytes), percent(share), bar, part.about);
  }
  out += fmt::format("{:<19} {:>14} {:>10}\n", "total", memory.total().value(),
                     bytes_text(memory.total()));
  return out;
}

std::string pages_text(const state::Plan& plan) {
  std::string out;
  for (std::size_t i = 0; i < plan.geometry.groups.size(); ++i) {
    const state::PageGroup& group = plan.geometry.groups[i];
    out += fmt::format("pages of {} rows", name_of(group.codec));
    if (group.window > Tokens(0)) out += fmt::format(", window {}", group.window.value());
    out += fmt::format(": {} bytes each, {} a sequence{}\n", group.page_bytes.value(),
                       plan.group_pages[i].value(), group.window > Tokens(0) ? " at a time" : "");
  }
  return out;
}

std::string shift_text(const state::Layout& layout) {
  const std::vector<ShiftBar> bars = shift_bars(layout);
  if (bars.empty()) return "context shift: possible\n";
  std::string out = "context shift: not possible\n";
  for (const ShiftBar& bar : bars) {
    out += fmt::format("  {} of layers {}: {}\n", name_of(bar.kind), layers_text(bar.layers),
                       bar.reason);
  }
  return out;
}

}  // namespace

std::string plan_text(const PlanReport& report, const PlanOptions& options) {
  const state::Plan& plan = report.plan.state;
  std::string out = fmt::format("{}: {}\n", report.architecture, report.about);
  if (!report.planned_only.empty()) {
    out += fmt::format("planned only: {}\n", report.planned_only);
  }
  out += fmt::format("context {} of {} positions, {}, pages of {} positions, chunks of {}",
                     plan.request.context.value(), report.context_length,
                     counted(plan.request.n_sequences, "sequence"),
                     plan.geometry.page_positions.value(), plan.request.max_step.value());
  if (report.planned_only.empty()) {
    out += ", " + counted(report.plan.workspace_shape.n_threads, "thread");
  }
  out += '\n';
  if (report.budget) {
    out += fmt::format("{} that fit a budget of {} bytes\n",
                       options.state.context ? "the most sequences" : "the most positions",
                       report.budget->value());
  }
  out += '\n' + table_text(plan, options) + parts_text(report.plan) + '\n' + pages_text(plan);
  out += fmt::format(
      "all but rows in pages, what other engines copy for a snapshot: {} bytes\n"
      "copied when a sequence goes on after a snapshot or fork: at most {} bytes\n",
      plan.logical_fixed_bytes().value(), plan.diverging_bytes.value());
  if (plan.request.max_rollback > Tokens(0)) {
    out += fmt::format("the last {} can be taken back: {} bytes of the pool are for that\n",
                       counted(plan.request.max_rollback.value(), "position"),
                       plan.rollback_bytes().value());
  }
  return out + shift_text(plan.layout);
}

}  // namespace kvant::app
