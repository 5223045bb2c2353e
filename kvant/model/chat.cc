#include "kvant/model/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kvant/model/json.h"

namespace kvant::model {
namespace {

constexpr std::string_view kStartText = "<|im_start|>";
constexpr std::string_view kEndText = "<|im_end|>";
constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr std::size_t kRoleBytesMax = 64;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// A template without what does not change its output here: blanks outside of strings (and those
// inside, which this format has none of), the kind of quotes, the name of the loop variable,
// strings joined by '+'.
std::string normal_form(std::string_view jinja) {
  std::string out;
  for (const char c : jinja) {
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') continue;
    out.push_back(c == '"' ? '\'' : c);
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kSpellings = {{
      {"{%-", "{%"},
      {"-%}", "%}"},
      {"{{-", "{{"},
      {"-}}", "}}"},
      {"message.role", "m['role']"},
      {"message.content", "m['content']"},
      {"message[", "m["},
      {"formessagein", "forminm"},
      {"forminmmessages", "forminmessages"},
      {"'+'", ""},
  }};
  for (const auto& [from, to] : kSpellings) replace_all(out, from, to);
  return out;
}

constexpr std::string_view kPlainTemplate =
    R"({{bos_token}}{%forminmessages%}{{'<|im_start|>'+m['role']+'\n'+m['content'])"
    R"(+'<|im_end|>\n'}}{%endfor%}{%ifadd_generation_prompt%}{{'<|im_start|>assistant\n'}})"
    R"({%endif%})";

TemplateMatch match_of(std::string_view jinja) {
  constexpr std::size_t kPlainBytesMax = 4096;
  if (jinja.empty()) return TemplateMatch::kMissing;
  if (jinja.size() > kPlainBytesMax) return TemplateMatch::kSimilar;
  return normal_form(jinja) == normal_form(kPlainTemplate) ? TemplateMatch::kExact
                                                           : TemplateMatch::kSimilar;
}

// A template that does not print bos relies on the tokenizer to add it, or wants none.
bool starts_with_bos(const Tokenizer& tokenizer) {
  if (!tokenizer.bos_id()) return false;
  const std::string& jinja = tokenizer.chat_template();
  return jinja.empty() || tokenizer.adds_bos() || jinja.find("bos_token") != std::string::npos;
}

NamedStatus check_role(std::string_view role) {
  const auto is_word_character = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  if (!role.empty() && role.size() <= kRoleBytesMax &&
      std::all_of(role.begin(), role.end(), is_word_character)) {
    return {};
  }
  return NamedError(
      {.code = ErrorCode::kBadValue},
      fmt::format("role is {}, allowed is a word of a-z and _ like 'user'", in_quotes(role)));
}

}  // namespace

NamedResult<ChatFormat> ChatFormat::detect(const Tokenizer& tokenizer) {
  const auto start_id = tokenizer.find_added(kStartText);
  const auto end_id = tokenizer.find_added(kEndText);
  if (!start_id || !end_id) {
    return NamedError({.code = ErrorCode::kUnsupportedModel},
                      fmt::format("chat format: the tokenizer has no token {}",
                                  start_id ? kEndText : kStartText));
  }
  ChatFormat format(tokenizer);
  format.start_id_ = *start_id;
  format.end_id_ = *end_id;
  format.match_ = match_of(tokenizer.chat_template());
  if (starts_with_bos(tokenizer)) format.bos_id_ = tokenizer.bos_id();
  for (const auto id : {end_id, tokenizer.eos_id(), tokenizer.find_added(kEndOfText)}) {
    auto& stop_ids = format.stop_ids_;
    if (id && std::find(stop_ids.begin(), stop_ids.end(), *id) == stop_ids.end()) {
      stop_ids.push_back(*id);
    }
  }
  return format;
}

std::string_view ChatFormat::note() const {
  switch (match_) {
    case TemplateMatch::kExact:
      return {};
    case TemplateMatch::kSimilar:
      return "the model's chat template does more than the built-in ChatML format, which is used";
    case TemplateMatch::kMissing:
      return "the model has no chat template; the built-in ChatML format is used";
  }
  return {};
}

NamedStatus ChatFormat::append_text(std::string_view text, std::vector<TokenId>& out) const {
  const std::vector<TokenId> ids =
      KVANT_TRY(tokenizer_.encode(text, {.special = SpecialTokens::kAsText}));
  out.insert(out.end(), ids.begin(), ids.end());
  return {};
}

NamedResult<std::vector<TokenId>> ChatFormat::render(std::span<const ChatMessage> messages,
                                                     GenerationPrompt prompt) const {
  return continue_chat(ChatTail::kEmpty, messages, prompt);
}

NamedResult<std::vector<TokenId>> ChatFormat::continue_chat(ChatTail tail,
                                                            std::span<const ChatMessage> messages,
                                                            GenerationPrompt prompt) const {
  return without_bad_alloc([&]() -> NamedResult<std::vector<TokenId>> {
    for (const ChatMessage& message : messages) KVANT_TRY(check_role(message.role));
    std::vector<TokenId> out;
    if (tail == ChatTail::kEmpty && bos_id_) out.push_back(*bos_id_);
    if (tail == ChatTail::kReplyCut) out.push_back(end_id_);
    if (tail == ChatTail::kReplyCut || tail == ChatTail::kReplyStopped) {
      KVANT_TRY(append_text("\n", out));
    }
    for (const ChatMessage& message : messages) {
      out.push_back(start_id_);
      KVANT_TRY(append_text(message.role + "\n" + message.content, out));
      out.push_back(end_id_);
      KVANT_TRY(append_text("\n", out));
    }
    if (prompt == GenerationPrompt::kAdd) {
      out.push_back(start_id_);
      KVANT_TRY(append_text("assistant\n", out));
    }
    return out;
  });
}

}  // namespace kvant::model
