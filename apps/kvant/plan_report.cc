#include "apps/kvant/plan_report.h"

#include <algorithm>

#include "kvant/state/shift.h"

namespace kvant::app {

Bytes pool_bytes_of(const state::Plan& plan, std::size_t component) {
  const state::Placed& placed = plan.geometry.components[component];
  const Bytes padded = state::padded(placed.bytes);
  if (placed.group < 0) return padded;
  return padded * plan.group_pages[static_cast<std::size_t>(placed.group)].value();
}

Bytes pool_bytes_of_sequence(const state::Plan& plan) {
  Bytes sum{0};
  for (std::size_t i = 0; i < plan.components.size(); ++i) sum += pool_bytes_of(plan, i);
  return sum;
}

std::vector<ShiftBar> shift_bars(const state::Layout& layout) {
  std::vector<ShiftBar> bars;
  for (std::size_t layer = 0; layer < layout.layers.size(); ++layer) {
    for (const state::ComponentSpec& spec : layout.layers[layer].components) {
      const std::string_view reason = state::shift_refusal(spec);
      if (reason.empty()) continue;
      auto same = std::ranges::find_if(
          bars, [&](const ShiftBar& bar) { return bar.kind == spec.kind && bar.reason == reason; });
      if (same == bars.end()) {
        bars.push_back({.reason = reason, .kind = spec.kind});
        same = bars.end() - 1;
      }
      same->layers.push_back(static_cast<std::int64_t>(layer));
    }
  }
  return bars;
}

}  // namespace kvant::app
