// All memory that a session will take, before any of it is taken.
#pragma once

#include <optional>

#include "kvant/codec/kind.h"
#include "kvant/engine/context_policy.h"
#include "kvant/model/config.h"
#include "kvant/model/network.h"
#include "kvant/model/state_config.h"
#include "kvant/state/plan.h"

namespace kvant::engine {

// The context when nobody names one: what the model allows, but at most this. Some models claim a
// million positions; reserving those unasked would be a surprise.
inline constexpr Tokens kDefaultContext{8192};

struct MemoryOptions {
  std::optional<Tokens> context = {};  // default: min(model, kDefaultContext)
  // Positions that a session begins with; it takes memory for more, up to the context, when they
  // are full. Default: the context at once. A plan counts the context.
  std::optional<Tokens> start = {};
  codec::Kind keys = codec::Kind::kF16;
  codec::Kind values = codec::Kind::kF16;
  Tokens chunk{512};   // tokens of a prompt evaluated at a time
  Rows logit_rows{1};  // logits computed at a time
  std::int64_t n_sequences = 1;
  std::int64_t n_snapshots = 0;  // kept while their sequences go on
  Tokens max_rollback{0};        // last positions that can be taken back
  int n_threads = 1;
  ContextPolicy policy = {};  // kShift takes a little more memory, in models that can shift
  std::optional<Bytes> memory_limit = {};  // default: the machine's memory
};

struct MemoryPlan {
  state::Plan state;
  // 0 for a model that can only be planned, which has neither passes nor sessions.
  model::WorkspaceShape workspace_shape;
  Bytes workspace_bytes{0};  // scratch of a pass
  Bytes session_bytes{0};    // token lists, last logits, sampler
  Bytes total() const;
};

// Errors: kEmptyContext; kContextBound{context, the model's}; kOutOfMemory{total, limit} when the
// plan exceeds the memory there is; those of state::make_plan, of model::plan_state for a
// StateConfig. Nothing is allocated.
NamedResult<MemoryPlan> plan_memory(const model::ModelConfig& config, const MemoryOptions& options);
NamedResult<MemoryPlan> plan_memory(const model::StateConfig& config, const MemoryOptions& options);

// The longest context whose plan fits `budget`, at most the model's. options.context is ignored.
// Errors: kOutOfMemory{bytes of a context of one position, budget} when not even that fits; those
// of plan_memory for one position.
NamedResult<Tokens> longest_context(const model::ModelConfig& config, const MemoryOptions& options,
                                    Bytes budget);
NamedResult<Tokens> longest_context(const model::StateConfig& config, const MemoryOptions& options,
                                    Bytes budget);

// No plan asks for more sequences.
inline constexpr std::int64_t kMaxSequences = std::int64_t{1} << 20;

// The most sequences whose plan fits `budget`, at most kMaxSequences. options.n_sequences is
// ignored.
// Errors: kOutOfMemory{bytes of one sequence, budget} when not even one fits; those of plan_memory
// for one sequence.
NamedResult<std::int64_t> most_sequences(const model::ModelConfig& config,
                                         const MemoryOptions& options, Bytes budget);
NamedResult<std::int64_t> most_sequences(const model::StateConfig& config,
                                         const MemoryOptions& options, Bytes budget);

}  // namespace kvant::engine
