#include "kvant/engine/session_growth.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvant/engine/session.h"

namespace kvant::engine {

Result<state::Sequence> create_sequence(tensor::Device& device, const state::Plan& whole,
                                        Tokens positions) {
  if (positions.value() < 1) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .actual = static_cast<std::uint64_t>(positions.value()),
                 .expected = 1};
  }
  state::PlanRequest request = whole.request;
  request.context = std::min(positions, whole.request.context);
  const state::Plan plan = KVANT_TRY(state::make_plan(whole.layout, request));
  auto pool = KVANT_TRY(state::PagePool::create(device, plan));
  return state::Sequence::create(std::move(pool), request.context);
}

// Takes over what there is into a new pool. After an error the old state is as it was.
Status Session::grow_to(Tokens capacity) {
  tensor::Device& device = sequence_.pool()->device();
  auto larger = KVANT_TRY(create_sequence(device, plan_.state, capacity));
  KVANT_TRY(larger.migrate_from(sequence_));
  sequence_ = std::move(larger);
  return ok();
}

// Makes the state large enough. Twice as large if that can be had, so that growth is rare.
NamedStatus Session::grow_for(Tokens positions) {
  const Tokens now = capacity();
  if (positions <= now || sequence_.poisoned()) return {};
  const Tokens needed = std::min(positions, context());
  const Tokens wanted = std::min(std::max(needed, now + now), context());
  Status grown = grow_to(wanted);
  if (!grown && wanted > needed) grown = grow_to(needed);
  if (grown) return {};
  return NamedError(grown.error(),
                    fmt::format("the state cannot grow from {} to {} positions; it goes on as it "
                                "is",
                                now.value(), needed.value()));
}

}  // namespace kvant::engine
