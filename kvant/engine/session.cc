#include "kvant/engine/session.h"

#include <algorithm>
#include <new>
#include <utility>

#include "kvant/base/clock.h"
#include "kvant/engine/session_growth.h"
#include "kvant/model/token_check.h"

namespace kvant::engine {
namespace {

// Copies logits to where the session keeps them.
class KeepLogits final : public model::PassObserver {
 public:
  explicit KeepLogits(std::vector<float>& logits) : logits_(logits) {}
  void on_logits(std::size_t, std::size_t, std::span<const float> logits) override {
    logits_.assign(logits.begin(), logits.end());  // within the capacity reserved at start
  }

 private:
  std::vector<float>& logits_;
};

NamedError out_of_memory(Bytes bytes, const char* what) {
  return {
      Error{.code = ErrorCode::kOutOfMemory, .actual = static_cast<std::uint64_t>(bytes.value())},
      what};
}

std::int64_t count(std::span<const TokenId> tokens) {
  return static_cast<std::int64_t>(tokens.size());
}

NamedStatus check_policy(const ContextPolicy& policy, Tokens context) {
  if (policy.on_full == OnFull::kError) return {};
  if (policy.keep >= Tokens(0) && policy.keep < context) return {};
  return NamedError(Error{.code = ErrorCode::kInvalidArgument,
                          .actual = policy.keep.size(),
                          .expected = context.size()},
                    "tokens to keep when the context is full");
}

// Whether a shift that failed so is worth a rebuild: the state cannot do it, but is as it was.
bool rebuild_helps(ErrorCode code) {
  switch (code) {
    case ErrorCode::kShiftRefused:
    case ErrorCode::kShiftNotPlanned:
    case ErrorCode::kShiftRowsReleased:
    case ErrorCode::kShiftPieces:
    case ErrorCode::kPoolExhausted:
      return true;
    default:
      return false;
  }
}

void erase_dropped(const state::ShiftRequest& dropped, std::vector<TokenId>& tokens) {
  const auto first = tokens.begin() + dropped.keep.value();
  tokens.erase(first, first + dropped.n.value());
}

}  // namespace

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kContextFull:
      return "context_full";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

Session::Session(std::shared_ptr<const model::LoadedModel> model, MemoryPlan plan, Runner runner,
                 state::Sequence sequence)
    : model_(std::move(model)),
      plan_(std::move(plan)),
      runner_(std::move(runner)),
      sequence_(std::move(sequence)) {}

NamedResult<std::unique_ptr<Session>> Session::create(
    std::shared_ptr<const model::LoadedModel> model, Machine machine,
    const MemoryOptions& options) {
  MemoryOptions sized = options;
  sized.n_threads = machine.pool->n_threads();
  MemoryPlan plan = KVANT_TRY(plan_memory(model->config, sized));
  KVANT_TRY(check_policy(options.policy, plan.state.request.context));
  auto sequence = KVANT_TRY(
      create_sequence(*machine.device, plan.state, options.start.value_or(kWholeContext)));
  Runner runner =
      KVANT_TRY(Runner::create(model->network, std::move(machine), plan.workspace_shape));
  try {
    std::unique_ptr<Session> session(
        new Session(std::move(model), std::move(plan), std::move(runner), std::move(sequence)));
    session->policy_ = options.policy;
    session->tokens_.reserve(session->context().size());
    session->logits_.reserve(static_cast<std::size_t>(session->model_->config.vocab_size));
    return session;
  } catch (const std::bad_alloc&) {
    return out_of_memory(Bytes(0), "session");
  }
}

// One step: at most a chunk of tokens.
NamedStatus Session::take(std::span<const TokenId> tokens, model::LogitsWanted wanted) {
  KeepLogits keep(logits_);
  KVANT_TRY(runner_.step({.sequence = &sequence_, .tokens = tokens, .wanted = wanted}, keep));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  if (wanted == model::LogitsWanted::kNone) logits_.clear();
  return {};
}

NamedStatus Session::evaluate(std::span<const TokenId> tokens, const Progress& progress,
                              Cancelling cancelling) {
  const auto chunk = static_cast<std::size_t>(plan_.workspace_shape.max_rows.value());
  for (std::size_t done = 0; done < tokens.size();) {
    if (cancelling == Cancelling::kAllowed && cancelled_.load(std::memory_order_relaxed)) {
      return NamedError(Error{.code = ErrorCode::kCancelled}, "prompt");
    }
    const auto part = tokens.subspan(done, std::min(chunk, tokens.size() - done));
    done += part.size();
    const bool last = done == tokens.size();
    KVANT_TRY(take(part, last ? model::LogitsWanted::kLast : model::LogitsWanted::kNone));
    if (progress) {
      progress(Tokens(static_cast<std::int64_t>(done)),
               Tokens(static_cast<std::int64_t>(tokens.size())));
    }
  }
  return {};
}

// Drops old tokens as the policy says. Requires: lacking of at most position() - keep.
NamedStatus Session::make_room(Tokens lacking) {
  if (sequence_.poisoned()) return NamedError(Error{.code = ErrorCode::kPoisoned});
  const state::ShiftRequest request =
      shift_request(policy_, {.position = position(), .lacking = lacking});
  // With nothing left an empty state is as good, and cold.
  const bool any_left = Position(0) + request.n < position();
  if (policy_.on_full == OnFull::kRebuild || !any_left) return rebuild(request);
  const Status shifted = sequence_.shift(request);
  if (!shifted) {
    return rebuild_helps(shifted.error().code) ? rebuild(request)
                                               : NamedStatus(NamedError(shifted.error(), "shift"));
  }
  // The last token's logits go with it.
  if (request.keep + request.n == Position(0) + Tokens(count(tokens_))) logits_.clear();
  erase_dropped(request, tokens_);
  figures_.n_shifts += 1;
  return {};
}

// Evaluates what stays from an empty state. Not to be cancelled: half of it would be lost.
NamedStatus Session::rebuild(const state::ShiftRequest& dropped) {
  const Stopwatch watch;
  std::vector<TokenId> left;
  try {
    left = tokens_;
  } catch (const std::bad_alloc&) {
    return out_of_memory(Bytes(count(tokens_) * static_cast<std::int64_t>(sizeof(TokenId))),
                         "rebuild");
  }
  erase_dropped(dropped, left);
  KVANT_TRY(sequence_.reset());
  tokens_.clear();
  logits_.clear();
  figures_.n_shifts += 1;
  figures_.n_rebuilds += left.empty() ? 0 : 1;
  KVANT_TRY(evaluate(left, {}, Cancelling::kIgnored));
  figures_.prefill_tokens += count(left);
  figures_.prefill_seconds += watch.seconds();
  return {};
}

NamedStatus Session::append(std::span<const TokenId> tokens, const Progress& progress) {
  cancelled_.store(false, std::memory_order_relaxed);
  if (tokens.empty()) return NamedError(Error{.code = ErrorCode::kEmptyPrompt});
  KVANT_TRY(model::check_tokens(tokens, model_->config));
  const Tokens incoming(count(tokens) + (pending_ ? 1 : 0));
  const Tokens all = incoming + (position() - Position(0));
  if (all > context()) {
    const bool may_drop = policy_.on_full != OnFull::kError;
    const Tokens limit = may_drop ? context() - policy_.keep : context();
    const Tokens asked = may_drop ? incoming : all;
    if (asked > limit) {
      return NamedError(
          Error{
              .code = ErrorCode::kPromptTooLong, .actual = asked.size(), .expected = limit.size()},
          may_drop ? "behind the tokens that are kept" : "");
    }
    KVANT_TRY(make_room(all - context()));
  }
  KVANT_TRY(grow_for(incoming + (position() - Position(0))));
  const Stopwatch watch;
  if (pending_) {
    const TokenId pending = *pending_;
    KVANT_TRY(evaluate({&pending, 1}, {}));
    pending_.reset();
  }
  const auto before = tokens_.size();
  NamedStatus done = evaluate(tokens, progress);
  figures_.prefill_tokens += static_cast<std::int64_t>(tokens_.size() - before);
  figures_.prefill_seconds += watch.seconds();
  return done;
}

NamedResult<FinishReason> Session::generate(const GenerateOptions& options, Sampler& sampler,
                                            const TokenSink& sink) {
  cancelled_.store(false, std::memory_order_relaxed);
  if (sequence_.poisoned()) return NamedError(Error{.code = ErrorCode::kPoisoned});
  for (std::int64_t n = 0; n < options.max_tokens; ++n) {
    if (pending_ && tokens_.size() == context().size()) {
      if (policy_.on_full == OnFull::kError) return FinishReason::kContextFull;
      KVANT_TRY(make_room(Tokens(1)));
    }
    const Stopwatch watch;
    if (pending_) {
      KVANT_TRY(grow_for(position() - Position(0) + Tokens(1)));
      const TokenId pending = *pending_;
      const NamedStatus done = evaluate({&pending, 1}, {});
      if (!done && done.error().code() == ErrorCode::kCancelled) return FinishReason::kCancelled;
      if (!done) return done.error();
      pending_.reset();
    }
    if (logits_.empty()) return NamedError(Error{.code = ErrorCode::kNoLogits});
    const auto sampled = sampler.sample(logits_, tokens_);
    if (!sampled) {
      return NamedError(Error{.code = ErrorCode::kBadValue},
                        "no logit is a number; the model's weights may be damaged");
    }
    const TokenId token = *sampled;
    if (std::ranges::find(options.stop_tokens, token) != options.stop_tokens.end()) {
      return FinishReason::kStop;
    }
    pending_ = token;
    figures_.decode_tokens += 1;
    figures_.decode_seconds += watch.seconds();
    if (!sink(token)) return FinishReason::kStop;
    if (cancelled_.load(std::memory_order_relaxed)) return FinishReason::kCancelled;
  }
  return FinishReason::kLength;
}

Bytes Session::allocated_bytes() const {
  const std::size_t lists =
      tokens_.capacity() * sizeof(TokenId) + logits_.capacity() * sizeof(float);
  return sequence_.resident_bytes() + sequence_.table_bytes() + runner_.workspace_bytes() +
         Bytes(static_cast<std::int64_t>(lists));
}

NamedResult<Session::Checkpoint> Session::checkpoint() const {
  auto snapshot = sequence_.snapshot();
  if (!snapshot) return NamedError(snapshot.error(), "checkpoint");
  try {
    return Checkpoint{
        .state = std::move(*snapshot), .tokens = tokens_, .logits = logits_, .pending = pending_};
  } catch (const std::bad_alloc&) {
    return out_of_memory(Bytes(static_cast<std::int64_t>(tokens_.size() * sizeof(TokenId) +
                                                         logits_.size() * sizeof(float))),
                         "checkpoint");
  }
}

NamedStatus Session::restore(const Checkpoint& checkpoint) {
  KVANT_TRY(grow_for(checkpoint.state.position() - Position(0)));
  KVANT_TRY(sequence_.restore(checkpoint.state));
  // Within the capacities reserved at start: a checkpoint that fits the state fits these.
  tokens_.assign(checkpoint.tokens.begin(), checkpoint.tokens.end());
  logits_.assign(checkpoint.logits.begin(), checkpoint.logits.end());
  pending_ = checkpoint.pending;
  return {};
}

NamedStatus Session::reset() {
  KVANT_TRY(sequence_.reset());
  tokens_.clear();
  logits_.clear();
  pending_.reset();
  return {};
}

}  // namespace kvant::engine
