#include "apps/kvant/plan_report.h"

namespace kvant::app {

Bytes pool_bytes_of(const state::Plan& plan, std::size_t component) {
  constexpr std::int64_t kAlignment = 64;  // where the next component begins (geometry.h)
  const state::Placed& placed = plan.geometry.components[component];
  const Bytes padded((placed.bytes.value() + kAlignment - 1) / kAlignment * kAlignment);
  if (placed.group < 0) return padded;
  return padded * plan.group_pages[static_cast<std::size_t>(placed.group)].value();
}

Bytes pool_bytes_of_sequence(const state::Plan& plan) {
  Bytes sum{0};
  for (std::size_t i = 0; i < plan.components.size(); ++i) sum += pool_bytes_of(plan, i);
  return sum;
}

Bytes diverging_bytes(const state::Plan& plan) {
  Bytes sum = plan.geometry.block_bytes;
  for (const state::PageGroup& group : plan.geometry.groups) sum += group.page_bytes;
  return sum;
}

}  // namespace kvant::app
