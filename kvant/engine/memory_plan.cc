#include "kvant/engine/memory_plan.h"

#include <algorithm>
#include <limits>

#include "kvant/base/system_memory.h"
#include "kvant/engine/sampler.h"

namespace kvant::engine {
namespace {

Error context_bound(Tokens asked, std::int64_t maximum) {
  return {.code = ErrorCode::kContextBound,
          .actual = static_cast<std::uint64_t>(asked.value()),
          .expected = static_cast<std::uint64_t>(maximum)};
}

}  // namespace

Bytes MemoryPlan::total() const { return state.total_bytes() + workspace_bytes + session_bytes; }

NamedResult<MemoryPlan> plan_memory(const model::ModelConfig& config,
                                    const MemoryOptions& options) {
  const Tokens context =
      options.context.value_or(std::min(kDefaultContext, Tokens(config.context_length)));
  if (context.value() < 1) return NamedError(Error{.code = ErrorCode::kEmptyContext}, "context");
  if (context.value() > config.context_length) {
    return NamedError(context_bound(context, config.context_length), "context of the model");
  }
  const Tokens chunk = std::min(options.chunk, context);  // of one sequence
  const Tokens rows = std::min(options.chunk, context * options.n_sequences);

  MemoryPlan plan;
  plan.workspace_shape = {.max_rows = Rows(rows.value()),
                          .max_logit_rows = options.logit_rows,
                          .max_spans = options.n_sequences,
                          .n_threads = options.n_threads};
  plan.workspace_bytes = KVANT_TRY(model::workspace_bytes(config, plan.workspace_shape));
  const auto layout = KVANT_TRY(model::state_layout(config, options.keys, options.values));
  auto state = state::make_plan(layout, {.context = context,
                                         .n_sequences = options.n_sequences,
                                         .n_snapshots = options.n_snapshots,
                                         .max_step = chunk});
  if (!state) return NamedError(state.error(), "state");
  plan.state = std::move(*state);
  const Bytes lists(context.value() * static_cast<std::int64_t>(sizeof(TokenId)) +
                    config.vocab_size * static_cast<std::int64_t>(sizeof(float)));
  plan.session_bytes = (lists + Sampler::bytes(config.vocab_size)) * options.n_sequences;

  const Bytes limit = options.memory_limit.value_or(physical_memory());
  if (plan.total() > limit) {
    return NamedError(Error{.code = ErrorCode::kOutOfMemory,
                            .actual = plan.total().size(),
                            .expected = limit.size()},
                      "the plan does not fit; lower --ctx or choose a smaller --kv");
  }
  return plan;
}

NamedResult<Tokens> longest_context(const model::ModelConfig& config, const MemoryOptions& options,
                                    Bytes budget) {
  MemoryOptions tried = options;
  tried.memory_limit = Bytes(std::numeric_limits<std::int64_t>::max());
  const auto total = [&](std::int64_t context) -> NamedResult<Bytes> {
    tried.context = Tokens(context);
    return KVANT_TRY(plan_memory(config, tried)).total();
  };
  const Bytes least = KVANT_TRY(total(1));
  if (least > budget) {
    return NamedError(
        Error{.code = ErrorCode::kOutOfMemory, .actual = least.size(), .expected = budget.size()},
        "not even a context of one position fits");
  }
  // Total bytes grow with the context, so a bisection finds the last one that fits.
  std::int64_t fits = 1;
  std::int64_t too_long = config.context_length + 1;
  while (too_long - fits > 1) {
    const std::int64_t middle = fits + (too_long - fits) / 2;
    const auto bytes = total(middle);
    (bytes && *bytes <= budget ? fits : too_long) = middle;
  }
  return Tokens(fits);
}

}  // namespace kvant::engine
