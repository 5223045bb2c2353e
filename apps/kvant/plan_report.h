// What `kvant plan` has worked out, and the two ways to tell it: a table for people, JSON for
// programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/kvant/json.h"
#include "apps/kvant/options.h"
#include "kvant/engine/memory_plan.h"
#include "kvant/state/logical_buffers.h"

namespace kvant::app {

struct PlanReport {
  std::string architecture;         // as config.json names it
  std::string about;                // "43 layers", and what else is known
  std::int64_t context_length = 0;  // positions the model was made for
  // Why this version cannot run the model; empty when it can.
  std::string planned_only;
  std::optional<Bytes> budget = {};
  engine::MemoryPlan plan;
  std::vector<state::LogicalBuffer> buffers = {};
};

// What the pool holds of a component for one sequence: whole pages, or its part of the block.
Bytes pool_bytes_of(const state::Plan& plan, std::size_t component);

// The same of all components together.
Bytes pool_bytes_of_sequence(const state::Plan& plan);

// Equal components of some layers that keep a context from shifting.
struct ShiftBar {
  std::string_view reason;
  ComponentKind kind = ComponentKind::kNone;
  std::vector<std::int64_t> layers = {};
};

// Empty: the context can shift.
std::vector<ShiftBar> shift_bars(const state::Layout& layout);

std::string plan_text(const PlanReport& report, const PlanOptions& options);
Json::Object plan_json(const PlanReport& report);

}  // namespace kvant::app
