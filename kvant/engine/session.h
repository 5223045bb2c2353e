// One conversation: a sequence's state, its tokens, and generation from it.
//
//   append(prompt) -> generate(...) -> append(next turn) -> generate(...)
//
// Invariants
//   1. tokens() are exactly the tokens the state holds, in order, then possibly one pending token:
//      the last one generated, which enters the state with the next append or generate. So a
//      reply's ids are kept and never made again from its text.
//   2. last_logits() belong to the last token in the state.
//   3. A call that fails leaves the state at the last chunk that was completed, or poisoned; it
//      says which. reset() and restore() always help.
//   4. When tokens are dropped, and which, depends on the tokens, the policy and the context
//      alone: not on chunks, threads or time.
//
// Threads: a Session is used by one thread at a time; cancel() may come from any thread or signal
// handler. The model and the thread pool are shared between sessions.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvant/engine/context_policy.h"
#include "kvant/engine/memory_plan.h"
#include "kvant/engine/runner.h"
#include "kvant/engine/sampler.h"
#include "kvant/model/loader.h"
#include "kvant/state/fingerprint.h"

namespace kvant::engine {

enum class FinishReason { kStop, kLength, kContextFull, kCancelled };
std::string_view name_of(FinishReason reason);

struct GenerateOptions {
  std::int64_t max_tokens = 256;
  std::span<const TokenId> stop_tokens = {};  // not emitted, not put into the state
};

// Speed and work since the session began.
struct Figures {
  std::int64_t prefill_tokens = 0;
  double prefill_seconds = 0.0;
  std::int64_t decode_tokens = 0;
  double decode_seconds = 0.0;  // forward passes and sampling of generated tokens
  std::int64_t n_shifts = 0;    // times that tokens were dropped because the context was full
  std::int64_t n_rebuilds = 0;  // those after which the others were evaluated again, as a prompt
};

class Session {
 public:
  // Called with each new token as it is chosen; returns false to stop (FinishReason::kCancelled
  // is then not used: the reason is kStop).
  using TokenSink = std::function<bool(TokenId)>;
  // Called after each chunk of a prompt: tokens done, tokens in all.
  using Progress = std::function<void(Tokens done, Tokens all)>;

  // Everything that options.memory plans is reserved here; with options.start only the state of so
  // many positions, which grows on demand: into a pool of twice the size, so that for a moment both
  // are there.
  // Errors: those of plan_memory; kInvalidArgument{keep, context} for a policy that drops tokens
  // and keeps all of them, {start, 1} for a start below 1; kOutOfMemory with the bytes.
  static NamedResult<std::unique_ptr<Session>> create(
      std::shared_ptr<const model::LoadedModel> model, Machine machine,
      const MemoryOptions& options);

  // Evaluates tokens after what is there, in chunks. If they do not fit, the policy says whether
  // older ones make room first; those of this call never do.
  // Errors: kEmptyPrompt, kTokenOutOfRange, kPromptTooLong{tokens in all, context}, or when older
  // ones may go {tokens that must enter, context - keep} (all of these: nothing changed);
  // kCancelled after a whole chunk; those of Runner::step and of a rebuild.
  NamedStatus append(std::span<const TokenId> tokens, const Progress& progress = {});

  // Chooses tokens until a stop token, the limit, cancel(), or a full context under
  // OnFull::kError.
  // Errors: kPoisoned; kNoLogits when nothing was appended yet; kBadValue when no logit is a
  // number; those of growing, once what there is has been filled; those of Runner::step.
  NamedResult<FinishReason> generate(const GenerateOptions& options, Sampler& sampler,
                                     const TokenSink& sink);

  // Makes a running append or generate end soon. Cleared when the next one starts.
  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }

  // A point to come back to: references to the state, and copies of tokens and logits.
  struct Checkpoint {
    state::Snapshot state;
    std::vector<TokenId> tokens;
    std::vector<float> logits;
    std::optional<TokenId> pending;
  };
  // Errors: kPoisoned, kOutOfMemory.
  NamedResult<Checkpoint> checkpoint() const;
  // Errors: those of growing and of state::Sequence::restore.
  NamedStatus restore(const Checkpoint& checkpoint);
  // Back to position 0; capacity and memory are kept.
  NamedStatus reset();

  // Writes all of the session to a state file, which then appears whole: the state in its compact
  // form, tokens with the pending one, last logits. Only its owner may read it.
  // Errors, each with the path: kPoisoned; those of base/new_file.h; kOutOfMemory. The session goes
  // on as before.
  // Cost: the first save or load also reads all weights, for the fingerprint.
  NamedStatus save(const std::string& path);
  // Goes on from such a file, whatever context it was made with; drops what the session held.
  // Errors, each with the path: those of MappedFile::open and state::StateFile; kBadFormat for a
  // file without the tokens of its positions; kTokenOutOfRange; kShiftNotPlanned for the state of a
  // context that was shifted when this session's policy is not to shift; those of growing. The
  // session is then as it was before; empty if it was poisoned, or had to make room and the device
  // failed.
  NamedStatus load(const std::string& path);

  Position position() const { return sequence_.position(); }
  Tokens context() const { return plan_.state.request.context; }
  // Positions that the memory taken so far holds.
  Tokens capacity() const { return sequence_.capacity(); }
  std::span<const TokenId> tokens() const { return tokens_; }
  std::optional<TokenId> pending() const { return pending_; }
  // Empty before the first append.
  std::span<const float> last_logits() const { return logits_; }
  // Cold: the state is that of a fresh run over tokens().
  state::Lineage lineage() const { return sequence_.lineage(); }
  const ContextPolicy& policy() const { return policy_; }
  const Figures& figures() const { return figures_; }
  const MemoryPlan& memory_plan() const { return plan_; }
  // Bytes of scratch really allocated; equals memory_plan().workspace_bytes.
  Bytes workspace_bytes() const { return runner_.workspace_bytes(); }
  // Bytes of state that the sequence holds now.
  Bytes state_bytes() const { return sequence_.resident_bytes(); }
  // Bytes taken so far of those that memory_plan().total() counts.
  Bytes allocated_bytes() const;
  const model::LoadedModel& model() const { return *model_; }

 private:
  Session(std::shared_ptr<const model::LoadedModel> model, MemoryPlan plan, Runner runner,
          state::Sequence sequence);
  enum class Cancelling : std::uint8_t { kAllowed, kIgnored };
  NamedStatus evaluate(std::span<const TokenId> tokens, const Progress& progress,
                       Cancelling cancelling = Cancelling::kAllowed);
  NamedStatus take(std::span<const TokenId> tokens, model::LogitsWanted wanted);
  NamedStatus make_room(Tokens lacking);
  NamedStatus grow_for(Tokens positions);
  Status grow_to(Tokens capacity);
  NamedStatus rebuild(const state::ShiftRequest& dropped);
  Status load_bytes(std::span<const std::byte> bytes);
  Result<state::Fingerprint> fingerprint();

  std::shared_ptr<const model::LoadedModel> model_;
  MemoryPlan plan_;
  ContextPolicy policy_;
  Runner runner_;
  state::Sequence sequence_;
  std::vector<TokenId> tokens_;  // room for the whole context is reserved at start
  std::optional<TokenId> pending_;
  std::vector<float> logits_;  // [vocab_size] once there are any
  Figures figures_;
  std::optional<state::Fingerprint> fingerprint_;  // once a file has needed it
  std::atomic<bool> cancelled_{false};
};

}  // namespace kvant::engine
