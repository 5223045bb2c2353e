// Text to token ids and back: byte-level BPE as in a Hugging Face tokenizer.json.
//
// encode: when asked, the texts of added tokens are cut out first (earliest position, longest
// match). The rest is split into words by a fixed pattern (pretokenizer.h), each word's bytes
// become one symbol each, and the adjacent pair of lowest rank is merged again and again, the
// leftmost first (bpe.h).
//
// Properties
//   1. decode_bytes(encode(x)) == x for every byte string x, valid UTF-8 or not: the vocabulary
//      must hold all 256 single bytes, and a file without them is refused when it is read. So no
//      text can meet an "unknown" token or a wrong id.
//   2. With SpecialTokens::kAsText no added token comes out of encode, whatever the text says:
//      text of users and documents cannot make control tokens.
//   3. encode never adds a beginning token unless asked: a chat format writes its own.
//
// A Tokenizer is a handle: copies are cheap and share one immutable table.
// Threads: any number.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/model/json_text.h"
#include "kvant/model/unicode.h"

namespace kvant::model {

enum class SpecialTokens : std::uint8_t {
  kAsText,  // "<|im_end|>" in the text is ten characters
  kParse,   // it is the control token
};

enum class Bos : std::uint8_t { kOmit, kAdd };

struct EncodeOptions {
  SpecialTokens special = SpecialTokens::kAsText;  // the safe choice for text that others wrote
  Bos bos = Bos::kOmit;
};

enum class SpecialOutput : std::uint8_t {
  kSkip,  // special tokens give no text
  kShow,
};

struct TokenizerData;  // tokenizer_data.h

class Tokenizer {
 public:
  // Reads tokenizer.json of a model directory and, when present, tokenizer_config.json.
  // `vocab_size`: rows of the model's embedding; every id must be below it.
  // Errors, each naming the file and the key: kMissingFile, kBadJson, kMissingKey, kBadValue,
  // kDuplicateName, kLimitExceeded, kTokenOutOfRange{id, vocab_size}, kOutOfMemory; kUnsupported
  // for another model, pattern, normalizer, decoder or post-processor than those known.
  static NamedResult<Tokenizer> open(const std::string& directory, std::int64_t vocab_size);

  // The same from the texts of the two files; `config` may be empty.
  static NamedResult<Tokenizer> parse(JsonText json, JsonText config, std::int64_t vocab_size);

  // Errors: kOutOfMemory; kUnsupported for Bos::kAdd when the tokenizer has no beginning token.
  // Cost: O(n log n) in the bytes of the longest word, O(n) in the text.
  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options) const;

  // The exact bytes that the tokens stand for, possibly not UTF-8.
  // Errors: kTokenOutOfRange{id, n_ids()} also for an id that the vocabulary skips; kOutOfMemory.
  Result<std::string> decode_bytes(std::span<const TokenId> ids, SpecialOutput special) const;

  // As decode_bytes, then made valid UTF-8 by Utf8Repair (unicode.h).
  Result<std::string> decode_text(std::span<const TokenId> ids, SpecialOutput special) const;

  // The bytes of one token. Errors: kTokenOutOfRange.
  Result<std::string_view> bytes_of(TokenId id) const;

  // The id whose text is exactly `text`, added tokens first.
  std::optional<TokenId> find(std::string_view text) const;
  std::optional<TokenId> find_added(std::string_view text) const;

  bool is_special(TokenId id) const;
  // False beyond n_ids() and for ids that the vocabulary skips.
  bool is_known(TokenId id) const;

  // One more than the largest id. Rows of the embedding at and beyond it are padding that sampling
  // must never choose.
  std::int64_t n_ids() const;
  // Number of different tokens.
  std::int64_t n_tokens() const;

  std::optional<TokenId> bos_id() const;
  std::optional<TokenId> eos_id() const;
  // Whether the model's own files say that a plain text starts with bos.
  bool adds_bos() const;
  // The Jinja text of tokenizer_config.json, empty when there is none.
  const std::string& chat_template() const;

 private:
  explicit Tokenizer(std::shared_ptr<const TokenizerData> data) : data_(std::move(data)) {}

  // Shared because it is immutable and chat formats and stream decoders outlive the call that
  // made them.
  std::shared_ptr<const TokenizerData> data_;
};

// Text of a stream of tokens, given out only at borders of UTF-8 characters. The pieces joined
// equal decode_text of all the ids.
class StreamDecoder {
 public:
  StreamDecoder(Tokenizer tokenizer, SpecialOutput special)
      : tokenizer_(std::move(tokenizer)), special_(special) {}

  // The text that has become complete with this token, often empty.
  // Errors: kTokenOutOfRange; the pending bytes are unchanged.
  Result<std::string> push(TokenId id);

  // The end of the stream: an unfinished character becomes U+FFFD.
  std::string flush();

 private:
  Tokenizer tokenizer_;
  SpecialOutput special_;
  Utf8Repair repair_;
};

}  // namespace kvant::model
