#include "kvant/engine/context_policy.h"

#include <algorithm>

namespace kvant::engine {

std::string_view name_of(OnFull on_full) {
  switch (on_full) {
    case OnFull::kError:
      return "error";
    case OnFull::kShift:
      return "shift";
    case OnFull::kRebuild:
      return "rebuild";
  }
  return "unknown";
}

state::ShiftRequest shift_request(const ContextPolicy& policy, const Overflow& overflow) {
  const Position keep = Position(0) + policy.keep;
  const Tokens half((overflow.position - keep).value() / 2);
  return {.keep = keep, .n = std::max(overflow.lacking, half)};
}

}  // namespace kvant::engine
