// kvant run: continue a text, or answer one message.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>

#include "apps/kvant/figures.h"
#include "apps/kvant/json.h"
#include "apps/kvant/opened_model.h"
#include "apps/kvant/reply.h"
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

NamedResult<std::string> read_prompt(const RunOptions& options) {
  if (options.prompt) return *options.prompt;
  if (*options.prompt_file == "-") return read_standard_input();
  return read_text_file(*options.prompt_file, kMaxPromptBytes);
}

NamedResult<std::vector<TokenId>> encode_chat(const RunOptions& options, std::string text,
                                              const model::Tokenizer& tokenizer) {
  const auto format = KVANT_TRY(model::ChatFormat::detect(tokenizer));
  std::vector<model::ChatMessage> messages;
  if (options.system) messages.push_back({.role = "system", .content = *options.system});
  messages.push_back({.role = "user", .content = std::move(text)});
  return format.render(messages, model::GenerationPrompt::kAdd);
}

// Errors: kEmptyPrompt for an empty text; those of the tokenizer.
NamedResult<std::vector<TokenId>> encode_prompt(const RunOptions& options, std::string text,
                                                const model::Tokenizer& tokenizer) {
  if (text.empty()) return NamedError(Error{.code = ErrorCode::kEmptyPrompt});
  if (options.form == PromptForm::kChat) return encode_chat(options, std::move(text), tokenizer);
  const auto special = options.form == PromptForm::kRawSpecials ? model::SpecialTokens::kParse
                                                                : model::SpecialTokens::kAsText;
  std::vector<TokenId> ids = KVANT_TRY(tokenizer.encode(text, {.special = special}));
  // A text that spells out its beginning must not get a second one.
  const auto bos = tokenizer.bos_id();
  const bool begins = !ids.empty() && bos && ids.front() == *bos;
  if (tokenizer.adds_bos() && bos && !begins) ids.insert(ids.begin(), *bos);
  return ids;
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
    std::string text = KVANT_TRY(read_prompt(options_));
    auto opened = KVANT_TRY(open_model(options_.model, options_.machine));
    const auto n_ids = std::min(opened.tokenizer.n_ids(), opened.model->config.vocab_size);
    auto sampler = KVANT_TRY(engine::Sampler::create(options_.sampler, n_ids));
    const auto prompt = KVANT_TRY(encode_prompt(options_, std::move(text), opened.tokenizer));
    const auto session = KVANT_TRY(
        engine::Session::create(opened.model, opened.machine, memory_options(options_.state)));
    ProgressLine progress(streams_, "prompt");
    KVANT_TRY(session->append(
        prompt, [&](Tokens done, Tokens all) { progress.update(done.value(), all.value()); }));
    progress.clear();
    streams_.note(setup_text(*session, opened.machine));

    const ReplyOptions reply_options{
        .max_tokens = options_.max_tokens,
        .stop_ids = stop_ids_of(opened.model->config, opened.tokenizer),
        .stops = options_.stops};
    const Reply reply =
        KVANT_TRY(generate_reply(*session, sampler, opened.tokenizer, reply_options, sink()));
    return finish(reply, *session);
  }

 private:
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
