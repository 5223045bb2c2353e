// States of sessions that begin small.
#pragma once

#include <limits>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/state/plan.h"
#include "kvant/state/sequence.h"
#include "kvant/tensor/device.h"

namespace kvant::engine {

inline constexpr Tokens kWholeContext{std::numeric_limits<std::int64_t>::max()};

// A pool planned as `whole` but for at most `positions`, and its sequence.
// Errors: kInvalidArgument for positions below 1; those of make_plan and PagePool::create.
Result<state::Sequence> create_sequence(tensor::Device& device, const state::Plan& whole,
                                        Tokens positions);

}  // namespace kvant::engine
