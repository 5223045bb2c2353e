// kvant chat: talk with a model.
//
// A turn is a message and its reply. It happens whole or not at all: when the message does not fit
// or the work fails, the session goes back to the checkpoint taken before the turn, and the
// conversation stays usable. A reply that was stopped by Ctrl-C or cut off by a limit stays. A
// script hears of turns that failed by the exit code; a person has read the error.
//
// With --on-full shift a full context drops its oldest tokens, wherever messages begin or end among
// them. The beginning, up to the end of the system message, stays.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "apps/kvant/figures.h"
#include "apps/kvant/interrupt.h"
#include "apps/kvant/line_input.h"
#include "apps/kvant/opened_model.h"
#include "apps/kvant/reply.h"
#include "apps/kvant/text.h"
#include "apps/kvant/verbs.h"
#include "kvant/model/chat.h"

namespace kvant::app {
namespace {

constexpr std::string_view kHelp =
    "/help   these commands\n"
    "/reset  forget the conversation\n"
    "/stats  speed and memory so far\n"
    "/quit   end; Ctrl-D does too\n"
    "Ctrl-C stops a reply. Every other line is a message.";

enum class Next { kGoOn, kEnd };

class Chat {
 public:
  static NamedResult<Chat> open(const ChatOptions& options, Streams& streams) {
    auto opened = KVANT_TRY(open_model(options.model, options.machine));
    auto format = KVANT_TRY(model::ChatFormat::detect(opened.tokenizer));
    const auto n_ids = std::min(opened.tokenizer.n_ids(), opened.model->config.vocab_size);
    auto sampler = KVANT_TRY(engine::Sampler::create(options.sampler, n_ids));
    engine::MemoryOptions memory = memory_options(options.state);
    memory.n_snapshots = 1;  // the checkpoint before a turn
    if (!options.state.keep) memory.policy.keep = KVANT_TRY(n_first_tokens(options, format));
    auto session = KVANT_TRY(engine::Session::create(opened.model, opened.machine, memory));
    streams.note(setup_text(*session, opened.machine));
    if (!format.note().empty()) streams.note(format.note());
    return Chat(options, streams,
                {.opened = std::move(opened),
                 .format = std::move(format),
                 .sampler = std::move(sampler),
                 .session = std::move(session)});
  }

  // Errors: those of the input.
  NamedStatus talk(LineInput& input) {
    while (!streams_.broken()) {
      const auto line = KVANT_TRY(input.next());
      if (!line || obey(*line) == Next::kEnd) return {};
    }
    return {};
  }

  bool all_succeeded() const { return all_succeeded_; }

 private:
  struct Parts {
    OpenedModel opened;
    model::ChatFormat format;
    engine::Sampler sampler;
    std::unique_ptr<engine::Session> session;
  };

  Chat(const ChatOptions& options, Streams& streams, Parts parts)
      : options_(options), streams_(streams), parts_(std::move(parts)) {
    reply_options_ = {.max_tokens = options.max_tokens,
                      .stop_ids = stop_ids_of(parts_.opened.model->config, parts_.opened.tokenizer),
                      .stops = options.stops};
  }

  Next obey(const std::string& line) {
    if (line.empty()) return Next::kGoOn;
    if (line.front() != '/') {
      const NamedStatus done = turn(line);
      if (!done) fail(done.error());
      return Next::kGoOn;
    }
    if (line == "/quit") return Next::kEnd;
    if (line == "/help") {
      streams_.note(kHelp);
    } else if (line == "/stats") {
      print_stats();
    } else if (line == "/reset") {
      reset();
    } else {
      streams_.note(
          fmt::format("unknown command {}; /help lists them", escape_for_display(line, 40)));
    }
    return Next::kGoOn;
  }

  void fail(const NamedError& error) {
    streams_.fail(error);
    all_succeeded_ = false;
  }

  void reset() {
    const NamedStatus done = parts_.session->reset();
    if (!done) fail(done.error());
    parts_.sampler.reset();
    tail_ = model::ChatTail::kEmpty;
  }

  void print_stats() {
    const engine::Session& session = *parts_.session;
    streams_.note(
        fmt::format("{} of {} positions used", session.tokens().size(), session.context().value()));
    streams_.note(speed_text(session.figures()));
    streams_.note(memory_text(session));
  }

  // Tokens that stand before the first message of the user.
  static NamedResult<Tokens> n_first_tokens(const ChatOptions& options,
                                            const model::ChatFormat& format) {
    std::vector<model::ChatMessage> messages;
    if (options.system) messages.push_back({.role = "system", .content = *options.system});
    const auto ids = KVANT_TRY(format.render(messages, model::GenerationPrompt::kOmit));
    return Tokens(static_cast<std::int64_t>(ids.size()));
  }

  NamedStatus turn(const std::string& message) {
    engine::Session& session = *parts_.session;
    const std::int64_t shifts_before = session.figures().n_shifts;
    const auto before = KVANT_TRY(session.checkpoint());
    const engine::Sampler sampler_before = parts_.sampler;
    const InterruptGuard guard(session);
    auto reply = answer(message, guard);
    if (!reply) {
      KVANT_TRY(session.restore(before));
      parts_.sampler = sampler_before;
      return reply.error();
    }
    tail_ = model::ChatTail::kReplyCut;  // a stop token never enters the state
    if (!reply->text.ends_with('\n')) streams_.print("\n");
    say_why_it_ended(*reply);
    if (session.figures().n_shifts > shifts_before) streams_.note(shifts_text(session));
    if (options_.stats) streams_.note(speed_text(session.figures()));
    return {};
  }

  NamedResult<Reply> answer(const std::string& message, const InterruptGuard& guard) {
    engine::Session& session = *parts_.session;
    std::vector<model::ChatMessage> messages;
    if (tail_ == model::ChatTail::kEmpty && options_.system) {
      messages.push_back({.role = "system", .content = *options_.system});
    }
    messages.push_back({.role = "user", .content = message});
    const auto ids =
        KVANT_TRY(parts_.format.continue_chat(tail_, messages, model::GenerationPrompt::kAdd));
    ProgressLine progress(streams_, "message");
    // append forgets a cancel() that came before it; the guard does not.
    KVANT_TRY(session.append(ids, [&](Tokens done, Tokens all) {
      if (guard.interrupted()) session.cancel();
      progress.update(done.value(), all.value());
    }));
    progress.clear();
    if (guard.interrupted()) return NamedError(Error{.code = ErrorCode::kCancelled}, "message");
    return generate_reply(session, parts_.sampler, parts_.opened.tokenizer, reply_options_,
                          [&](std::string_view text) {
                            streams_.print(text);
                            return !streams_.broken() && !guard.interrupted();
                          });
  }

  void say_why_it_ended(const Reply& reply) {
    if (reply.reason == engine::FinishReason::kLength) {
      streams_.note(
          fmt::format("(cut off after {}; -n allows more)", counted(options_.max_tokens, "token")));
    }
    if (reply.reason == engine::FinishReason::kContextFull) {
      streams_.note(
          fmt::format("(the context of {} positions is full; /reset starts anew,"
                      " --on-full shift goes on)",
                      parts_.session->context().value()));
    }
  }

  const ChatOptions& options_;
  Streams& streams_;
  Parts parts_;
  ReplyOptions reply_options_;
  model::ChatTail tail_ = model::ChatTail::kEmpty;
  bool all_succeeded_ = true;
};

NamedResult<int> chat(const ChatOptions& options, Streams& streams) {
  const auto input = KVANT_TRY(open_line_input(options.history_file));
  auto conversation = KVANT_TRY(Chat::open(options, streams));
  KVANT_TRY(conversation.talk(*input));
  const bool is_script = ::isatty(STDIN_FILENO) != 1;
  return is_script && !conversation.all_succeeded() ? kFailure : kOk;
}

}  // namespace

int run_verb(const ChatOptions& options, Streams& streams) {
  const auto code = chat(options, streams);
  return code ? *code : fail(streams, code.error());
}

}  // namespace kvant::app
