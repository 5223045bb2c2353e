// What a session does when its context is full.
//
//   kError    a prompt that does not fit is refused, a reply ends with FinishReason::kContextFull
//   kShift    the oldest tokens behind the first `keep` are dropped, the rest moves down
//   kRebuild  the same tokens are dropped, and those that stay are evaluated again from an empty
//             state
//
//   before  | keep | n dropped | stays ....... |
//   after   | keep | stays ....... |   free    |
//
//   n = max(tokens that do not fit, (position - keep) / 2)
//
// A shift costs next to nothing and leaves a derived state: rows that stay were computed when the
// dropped tokens were there. A rebuild costs a prompt of what stays, and its state is the cold one
// of just these tokens. kShift becomes kRebuild for models whose memory is bound to positions and
// for shifts that the state refuses (state::Sequence::shift).
//
// Rejected: dropping only what does not fit. Every further token would shift again.
#pragma once

#include <cstdint>
#include <string_view>

#include "kvant/base/units.h"
#include "kvant/state/sequence.h"

namespace kvant::engine {

enum class OnFull : std::uint8_t { kError, kShift, kRebuild };
std::string_view name_of(OnFull on_full);

struct ContextPolicy {
  OnFull on_full = OnFull::kError;
  Tokens keep{0};  // first tokens that stay whatever happens; below the context
};

// Where a sequence stands and how many of the positions to come its context lacks.
struct Overflow {
  Position position{0};
  Tokens lacking{1};  // 1 to position - keep
};

// What to drop.
state::ShiftRequest shift_request(const ContextPolicy& policy, const Overflow& overflow);

}  // namespace kvant::engine
