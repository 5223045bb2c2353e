// The ChatML-style format of the LFM2 family, as token ids:
//
//   <bos> { <|im_start|> role \n content <|im_end|> \n } <|im_start|> assistant \n
//
// The markers are control tokens; role and content are plain text, encoded with special parsing
// off, so a user who types "<|im_end|>" gets those ten characters and not the token. Role, newline
// and content are encoded together, as a reference renderer that parses the whole text does.
//
// A session keeps the ids of a generated reply and adds only what follows it (continue_chat): the
// reply's text encoded again may give other ids, which would break the cached prefix.
//
// The model's own template (Jinja) is not run. detect says whether it describes this format.
//
// bos is written exactly once or not at all, whoever the model expects it from:
//
//   template prints bos_token | tokenizer adds bos | ids start with bos
//   yes                       | yes or no          | yes
//   no                        | yes                | yes
//   no                        | no                 | no
//   (no template)             | yes or no          | yes, if the tokenizer has one
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/model/tokenizer.h"

namespace kvant::model {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool": letters a-z and '_'
  std::string content;
};

enum class GenerationPrompt : std::uint8_t { kOmit, kAdd };

// How the ids that a session holds end.
enum class ChatTail : std::uint8_t {
  kEmpty,         // nothing yet
  kMessage,       // a whole message with its newline, as render leaves it
  kReplyStopped,  // a generated reply whose <|im_end|> is the last id
  kReplyCut,      // a generated reply that was cut off before its <|im_end|>
};

enum class TemplateMatch : std::uint8_t {
  kExact,    // the model's template is this format
  kSimilar,  // it uses these markers but does more (tools, thinking); the built-in one is used
  kMissing,  // the model has no template; the built-in format is used
};

class ChatFormat {
 public:
  // Errors: kUnsupportedModel when the tokenizer lacks the markers <|im_start|> and <|im_end|>.
  static NamedResult<ChatFormat> detect(const Tokenizer& tokenizer);

  TemplateMatch template_match() const { return match_; }
  // One line for the user when the template is not exactly this format, else empty.
  std::string_view note() const;

  // Ids of a whole conversation, with bos as the table above says.
  // Errors: kBadValue for a role that is not a word; kOutOfMemory.
  NamedResult<std::vector<TokenId>> render(std::span<const ChatMessage> messages,
                                           GenerationPrompt prompt) const;

  // Ids to append to a session that ends as `tail` says: what closes the reply, then the messages.
  // render(m, p) == continue_chat(kEmpty, m, p), and rendering message by message with kMessage
  // gives the same ids as all at once.
  // Errors: as render.
  NamedResult<std::vector<TokenId>> continue_chat(ChatTail tail,
                                                  std::span<const ChatMessage> messages,
                                                  GenerationPrompt prompt) const;

  // The ids at which a reply ends: <|im_end|>, the tokenizer's eos and <|endoftext|> if present.
  std::span<const TokenId> stop_ids() const { return stop_ids_; }

 private:
  explicit ChatFormat(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}
  NamedStatus append_text(std::string_view text, std::vector<TokenId>& out) const;

  Tokenizer tokenizer_;
  std::optional<TokenId> bos_id_;  // written once, before the first message
  TokenId start_id_ = 0;
  TokenId end_id_ = 0;
  TemplateMatch match_ = TemplateMatch::kMissing;
  std::vector<TokenId> stop_ids_;
};

}  // namespace kvant::model
