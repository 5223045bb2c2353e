// kvant run: continue a text, or answer one message.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <optional>

#include "apps/kvant/figures.h"
#include "apps/kvant/json.h"
#include "apps/kvant/opened_model.h"
#include "apps/kvant/reply.h"
#include "apps/kvant/text.h"
#include "apps/kvant/verbs.h"
#include "kvant/base/file.h"
#include "kvant/model/chat.h"

namespace kvant::app {
namespace {

// Far beyond any context, and small enough to hold twice.
constexpr Bytes kMaxPromptBytes{256 << 20};

NamedResult<std::string> read_standard_input() {
  std::string text;
  std::array<char, 1 << 16> piece;
  while (true) {
    const ssize_t n = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return NamedError(Error{.code = ErrorCode::kFileReadFailed, .cause = errno},
                        "standard input");
    }
    if (n == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(n));
    if (text.size() > kMaxPromptBytes.size()) {
      return NamedError(Error{.code = ErrorCode::kLimitExceeded,
                              .actual = text.size(),
                              .expected = kMaxPromptBytes.size()},
                        "bytes of the prompt");
    }
  }
}

// Nothing when there is none: a loaded state can go on by itself.
NamedResult<std::optional<std::string>> read_prompt(const RunOptions& options) {
  if (options.prompt) return options.prompt;
  if (!options.prompt_file) return std::optional<std::string>();
  const bool is_standard_input = *options.prompt_file == "-";
  return std::optional(KVANT_TRY(is_standard_input
                                     ? read_standard_input()
                                     : read_text_file(*options.prompt_file, kMaxPromptBytes)));
}

// How what a session holds ends, for a message that follows it.
model::ChatTail tail_of(std::optional<TokenId> last, const model::ChatFormat& format) {
  if (!last) return model::ChatTail::kEmpty;
  const auto stops = format.stop_ids();
  const bool stopped = std::ranges::find(stops, *last) != stops.end();
  return stopped ? model::ChatTail::kReplyStopped : model::ChatTail::kReplyCut;
}

NamedResult<std::vector<TokenId>> encode_chat(const RunOptions& options, std::string text,
                                              const model::Tokenizer& tokenizer,
                                              std::optional<TokenId> last) {
  const auto format = KVANT_TRY(model::ChatFormat::detect(tokenizer));
  std::vector<model::ChatMessage> messages;
  if (options.system) messages.push_back({.role = "system", .content = *options.system});
  messages.push_back({.role = "user", .content = std::move(text)});
  return format.continue_chat(tail_of(last, format), messages, model::GenerationPrompt::kAdd);
}

// Ids of a prompt behind `last`, if a state was loaded that ends in it.
// Errors: kEmptyPrompt for an empty text; those of the tokenizer.
NamedResult<std::vector<TokenId>> encode_prompt(const RunOptions& options, std::string text,
                                                const model::Tokenizer& tokenizer,
                                                std::optional<TokenId> last) {
  if (text.empty()) return NamedError(Error{.code = ErrorCode::kEmptyPrompt});
  if (options.form == PromptForm::kChat) {
    return encode_chat(options, std::move(text), tokenizer, last);
  }
  const auto special = options.form == PromptForm::kRawSpecials ? model::SpecialTokens::kParse
                                                                : model::SpecialTokens::kAsText;
  std::vector<TokenId> ids = KVANT_TRY(tokenizer.encode(text, {.special = special}));
  // A text that spells out its beginning, or goes on, must not get a second one.
  const auto bos = tokenizer.bos_id();
  const bool begins = last || (!ids.empty() && bos && ids.front() == *bos);
  if (tokenizer.adds_bos() && bos && !begins) ids.insert(ids.begin(), *bos);
  return ids;
}

std::int64_t n_tokens(const engine::Session& session) {
  return session.position().value() + (session.pending() ? 1 : 0);
}

std::optional<TokenId> last_token(const engine::Session& session) {
  if (session.pending()) return session.pending();
  return session.tokens().empty() ? std::nullopt : std::optional(session.tokens().back());
}

Json::Object reply_json(const Reply& reply, const engine::Session& session) {
  return {{"text", reply.text},
          {"tokens", json_of(reply.tokens)},
          {"finish_reason", name_of(reply.reason)},
          {"stop", reply.stop.empty() ? Json() : Json(reply.stop)},
          {"figures", figures_json(session)}};
}

class Run {
 public:
  Run(const RunOptions& options, Streams& streams) : options_(options), streams_(streams) {}

  NamedResult<int> go() {
    std::optional<std::string> text = KVANT_TRY(read_prompt(options_));
    auto opened = KVANT_TRY(open_model(options_.model, options_.machine));
    const auto n_ids = std::min(opened.tokenizer.n_ids(), opened.model->config.vocab_size);
    auto sampler = KVANT_TRY(engine::Sampler::create(options_.sampler, n_ids));
    std::vector<TokenId> prompt;
    if (text && !options_.load_state) {
      prompt = KVANT_TRY(encode_prompt(options_, std::move(*text), opened.tokenizer, {}));
    }
    const auto session = KVANT_TRY(
        engine::Session::create(opened.model, opened.machine, memory_options(options_.state)));
    if (options_.load_state) {
      KVANT_TRY(load(*session));
      if (text) {
        prompt = KVANT_TRY(
            encode_prompt(options_, std::move(*text), opened.tokenizer, last_token(*session)));
      }
    }
    if (!prompt.empty()) KVANT_TRY(evaluate(*session, prompt));
    streams_.note(setup_text(*session, opened.machine));

    const ReplyOptions reply_options{
        .max_tokens = options_.max_tokens,
        .stop_ids = stop_ids_of(opened.model->config, opened.tokenizer),
        .stops = options_.stops};
    const Reply reply =
        KVANT_TRY(generate_reply(*session, sampler, opened.tokenizer, reply_options, sink()));
    const int code = finish(reply, *session);
    if (options_.save_state) KVANT_TRY(save(*session));
    return code;
  }

 private:
  NamedStatus load(engine::Session& session) {
    KVANT_TRY(session.load(*options_.load_state));
    streams_.note(fmt::format("goes on from {}", counted(n_tokens(session), "token")));
    return {};
  }

  NamedStatus evaluate(engine::Session& session, std::span<const TokenId> prompt) {
    ProgressLine progress(streams_, "prompt");
    return session.append(
        prompt, [&](Tokens done, Tokens all) { progress.update(done.value(), all.value()); });
  }

  NamedStatus save(engine::Session& session) {
    KVANT_TRY(session.save(*options_.save_state));
    streams_.note(fmt::format("saved the state of {}", counted(n_tokens(session), "token")));
    return {};
  }

  TextSink sink() {
    if (options_.output == OutputForm::kJson) return [](std::string_view) { return true; };
    return [this](std::string_view text) {
      streams_.print(text);
      return !streams_.broken();
    };
  }

  std::string_view empty_reply_note() const {
    if (options_.form != PromptForm::kRaw) return "the reply is empty: the model ended it at once";
    return "the reply is empty: the model ended it at once; a chat model wants --chat";
  }

  int finish(const Reply& reply, const engine::Session& session) {
    if (options_.output == OutputForm::kJson) {
      streams_.print(to_text(reply_json(reply, session)));
    } else if (!reply.text.ends_with('\n')) {
      streams_.print("\n");
    }
    if (options_.stats || streams_.err_is_terminal()) {
      streams_.note(speed_text(session.figures()));
    }
    if (options_.stats) streams_.note(memory_text(session));
    if (const std::string text = shifts_text(session); !text.empty()) streams_.note(text);
    const bool ended = reply.reason == engine::FinishReason::kStop;
    if (ended && reply.tokens.empty()) streams_.note(empty_reply_note());
    if (reply.reason != engine::FinishReason::kContextFull) return kOk;
    return streams_.fail(
        NamedError(Error{.code = ErrorCode::kContextFull,
                         .expected = static_cast<std::uint64_t>(session.context().value())},
                   "the reply was cut off; --ctx allows more, --on-full shift goes on"));
  }

  const RunOptions& options_;
  Streams& streams_;
};

}  // namespace

int run_verb(const RunOptions& options, Streams& streams) {
  const auto code = Run(options, streams).go();
  return code ? *code : fail(streams, code.error());
}

}  // namespace kvant::app
