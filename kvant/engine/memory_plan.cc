#include "kvant/engine/memory_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kvant/base/system_memory.h"
#include "kvant/engine/sampler.h"
#include "kvant/state/shift.h"

namespace kvant::engine {
namespace {

Error context_bound(Tokens asked, std::int64_t maximum) {
  return {.code = ErrorCode::kContextBound,
          .actual = static_cast<std::uint64_t>(asked.value()),
          .expected = static_cast<std::uint64_t>(maximum)};
}

Tokens context_or_default(const MemoryOptions& options, std::int64_t context_length) {
  return options.context.value_or(std::min(kDefaultContext, Tokens(context_length)));
}

// Position deltas of a session that shifts: `keep` never changes, so the rows before it have one
// and all others another.
constexpr std::int64_t kShiftedDeltas = 2;

state::PlanRequest request_of(const MemoryOptions& options, Tokens context) {
  state::PlanRequest request{.context = context,
                             .n_sequences = options.n_sequences,
                             .n_snapshots = options.n_snapshots,
                             .max_step = std::min(options.chunk, context),
                             .max_rollback = options.max_rollback};
  // A sequence that drops tokens may leave all its pages to a snapshot and fill others.
  if (options.policy.on_full != OnFull::kError) request.n_sequences += options.n_snapshots;
  if (options.policy.on_full == OnFull::kShift) request.shifts = state::Shifts::kPlanned;
  return request;
}

// What is planned for models that cannot shift.
MemoryOptions without_shifts(MemoryOptions options) {
  options.policy.on_full = OnFull::kRebuild;
  return options;
}

NamedStatus check_limit(const MemoryPlan& plan, const MemoryOptions& options) {
  const Bytes limit = options.memory_limit.value_or(physical_memory());
  if (plan.total() <= limit) return {};
  return NamedError(
      Error{
          .code = ErrorCode::kOutOfMemory, .actual = plan.total().size(), .expected = limit.size()},
      "the plan does not fit; lower --ctx or choose a smaller --kv");
}

struct BudgetSearch {
  Bytes budget;
  std::int64_t maximum;
  const char* nothing_fits;  // said of n = 1
};

// The largest n in [1, maximum] whose plan fits, given that bytes never fall with n.
// `plan_of(n)` returns a NamedResult<MemoryPlan>.
template <class PlanOf>
NamedResult<std::int64_t> largest_that_fits(const BudgetSearch& search, const PlanOf& plan_of) {
  const Bytes least = KVANT_TRY(plan_of(1)).total();
  if (least > search.budget) {
    return NamedError(Error{.code = ErrorCode::kOutOfMemory,
                            .actual = least.size(),
                            .expected = search.budget.size()},
                      search.nothing_fits);
  }
  std::int64_t fits = 1;
  std::int64_t too_many = search.maximum + 1;
  while (too_many - fits > 1) {
    const std::int64_t middle = fits + (too_many - fits) / 2;
    const auto plan = plan_of(middle);
    (plan && plan->total() <= search.budget ? fits : too_many) = middle;
  }
  return fits;
}

template <class Config>
NamedResult<Tokens> longest_context_of(const Config& config, MemoryOptions options, Bytes budget) {
  options.memory_limit = Bytes(std::numeric_limits<std::int64_t>::max());
  const auto plan_of = [&](std::int64_t context) {
    options.context = Tokens(context);
    return plan_memory(config, options);
  };
  return Tokens(KVANT_TRY(largest_that_fits({.budget = budget,
                                             .maximum = config.context_length,
                                             .nothing_fits = "not even a context of one position"
                                                             " fits"},
                                            plan_of)));
}

template <class Config>
NamedResult<std::int64_t> most_sequences_of(const Config& config, MemoryOptions options,
                                            Bytes budget) {
  options.memory_limit = Bytes(std::numeric_limits<std::int64_t>::max());
  const auto plan_of = [&](std::int64_t n_sequences) {
    options.n_sequences = n_sequences;
    return plan_memory(config, options);
  };
  return largest_that_fits({.budget = budget,
                            .maximum = kMaxSequences,
                            .nothing_fits = "not even one sequence of this context fits"},
                           plan_of);
}

}  // namespace

Bytes MemoryPlan::total() const { return state.total_bytes() + workspace_bytes + session_bytes; }

NamedResult<MemoryPlan> plan_memory(const model::ModelConfig& config,
                                    const MemoryOptions& options) {
  const Tokens context = context_or_default(options, config.context_length);
  if (context.value() < 1) return NamedError(Error{.code = ErrorCode::kEmptyContext}, "context");
  if (context.value() > config.context_length) {
    return NamedError(context_bound(context, config.context_length), "context of the model");
  }
  const Tokens rows = std::min(options.chunk, context * options.n_sequences);

  MemoryPlan plan;
  const auto layout = KVANT_TRY(model::state_layout(config, options.keys, options.values));
  const bool shifts = options.policy.on_full == OnFull::kShift;
  if (shifts && state::shift_obstacle(layout)) return plan_memory(config, without_shifts(options));
  plan.workspace_shape = {.max_rows = Rows(rows.value()),
                          .max_logit_rows = options.logit_rows,
                          .max_spans = options.n_sequences,
                          .max_query_variants = shifts ? kShiftedDeltas : 1,
                          .n_threads = options.n_threads};
  plan.workspace_bytes = KVANT_TRY(model::workspace_bytes(config, plan.workspace_shape));
  auto state = state::make_plan(layout, request_of(options, context));
  if (!state) return NamedError(state.error(), "state");
  plan.state = std::move(*state);
  const Bytes lists(context.value() * static_cast<std::int64_t>(sizeof(TokenId)) +
                    config.vocab_size * static_cast<std::int64_t>(sizeof(float)));
  plan.session_bytes = (lists + Sampler::bytes(config.vocab_size)) * options.n_sequences;
  KVANT_TRY(check_limit(plan, options));
  return plan;
}

NamedResult<MemoryPlan> plan_memory(const model::StateConfig& config,
                                    const MemoryOptions& options) {
  const Tokens context = context_or_default(options, config.context_length);
  MemoryPlan plan;
  plan.state = KVANT_TRY(model::plan_state(config, {.keys = options.keys, .values = options.values},
                                           request_of(options, context)));
  const bool shifts = options.policy.on_full == OnFull::kShift;
  if (shifts && state::shift_obstacle(plan.state.layout)) {
    return plan_memory(config, without_shifts(options));
  }
  KVANT_TRY(check_limit(plan, options));
  return plan;
}

NamedResult<Tokens> longest_context(const model::ModelConfig& config, const MemoryOptions& options,
                                    Bytes budget) {
  return longest_context_of(config, options, budget);
}

NamedResult<Tokens> longest_context(const model::StateConfig& config, const MemoryOptions& options,
                                    Bytes budget) {
  return longest_context_of(config, options, budget);
}

NamedResult<std::int64_t> most_sequences(const model::ModelConfig& config,
                                         const MemoryOptions& options, Bytes budget) {
  return most_sequences_of(config, options, budget);
}

NamedResult<std::int64_t> most_sequences(const model::StateConfig& config,
                                         const MemoryOptions& options, Bytes budget) {
  return most_sequences_of(config, options, budget);
}

}  // namespace kvant::engine
