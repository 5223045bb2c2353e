#include "kvant/model/tokenizer.h"

#include <new>

#include "kvant/model/json.h"
#include "kvant/model/model_file.h"
#include "kvant/model/tokenizer_data.h"

namespace kvant::model {
namespace {

constexpr Bytes kTokenizerBytesMax(std::int64_t{128} << 20);
constexpr Bytes kConfigBytesMax(std::int64_t{16} << 20);
constexpr std::size_t kTextBytesMax = std::size_t{1} << 30;  // places in a word are 32 bits wide

// Encodes text without added tokens.
class WordEncoder {
 public:
  explicit WordEncoder(const TokenizerData& data) : data_(data) {}

  void encode(std::string_view text, std::vector<TokenId>& out) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = word_end(data_.pattern, text, begin);
      encode_word(text.substr(begin, end - begin), out);
      begin = end;
    }
  }

 private:
  void encode_word(std::string_view word, std::vector<TokenId>& out) {
    if (data_.ignore_merges) {
      const auto whole = data_.words.find(word);
      if (whole != data_.words.end()) {
        out.push_back(whole->second);
        return;
      }
    }
    symbols_.clear();
    for (const char c : word) symbols_.push_back(data_.byte_ids[static_cast<unsigned char>(c)]);
    merge_word(data_.merges, scratch_, symbols_);
    out.insert(out.end(), symbols_.begin(), symbols_.end());
  }

  const TokenizerData& data_;
  MergeScratch scratch_;
  std::vector<TokenId> symbols_;
};

void encode_with_added(const TokenizerData& data, std::string_view text,
                       std::vector<TokenId>& out) {
  WordEncoder words(data);
  std::size_t begin = 0;
  while (const auto match = data.added.find_next(text, begin)) {
    words.encode(text.substr(begin, match->begin - begin), out);
    out.push_back(match->id);
    begin = match->begin + match->n_bytes;
  }
  words.encode(text.substr(begin), out);
}

}  // namespace

NamedResult<Tokenizer> Tokenizer::open(const std::string& directory, std::int64_t vocab_size) {
  return without_bad_alloc([&]() -> NamedResult<Tokenizer> {
    const std::string path = directory + "/tokenizer.json";
    const std::string config_path = directory + "/tokenizer_config.json";
    const std::string template_path = directory + "/chat_template.jinja";
    const std::string text = KVANT_TRY(read_needed_file(path, kTokenizerBytesMax));
    const auto config = KVANT_TRY(read_optional_file(config_path, kConfigBytesMax));
    // To read_tokenizer an empty text is a file that is not there.
    if (config && config->empty()) {
      return NamedError({.code = ErrorCode::kBadJson}, short_path(config_path) + ": empty");
    }
    auto data =
        KVANT_TRY(read_tokenizer({.name = path, .text = text},
                                 {.name = config_path, .text = config.value_or("")}, vocab_size));
    if (data->chat_template.empty()) {
      auto chat_template = KVANT_TRY(read_optional_file(template_path, kConfigBytesMax));
      if (chat_template) data->chat_template = *std::move(chat_template);
    }
    return Tokenizer(std::move(data));
  });
}

NamedResult<Tokenizer> Tokenizer::parse(JsonText json, JsonText config, std::int64_t vocab_size) {
  return Tokenizer(KVANT_TRY(read_tokenizer(json, config, vocab_size)));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text,
                                               const EncodeOptions& options) const {
  if (text.size() > kTextBytesMax) {
    return Error{
        .code = ErrorCode::kLimitExceeded, .actual = text.size(), .expected = kTextBytesMax};
  }
  if (options.bos == Bos::kAdd && !data_->bos_id) return Error{.code = ErrorCode::kUnsupported};
  return without_bad_alloc([&]() -> Result<std::vector<TokenId>> {
    std::vector<TokenId> out;
    if (options.bos == Bos::kAdd) out.push_back(*data_->bos_id);
    if (options.special == SpecialTokens::kParse) {
      encode_with_added(*data_, text, out);
    } else {
      WordEncoder(*data_).encode(text, out);
    }
    return out;
  });
}

Result<std::string_view> Tokenizer::bytes_of(TokenId id) const {
  if (!data_->is_known(id)) {
    // A negative id shows as the huge number it would be as an index.
    return Error{.code = ErrorCode::kTokenOutOfRange,
                 .actual = static_cast<std::uint64_t>(static_cast<std::uint32_t>(id)),
                 .expected = data_->pieces.size()};
  }
  return data_->bytes_of(data_->pieces[static_cast<std::size_t>(id)]);
}

Result<std::string> Tokenizer::decode_bytes(std::span<const TokenId> ids,
                                            SpecialOutput special) const {
  return without_bad_alloc([&]() -> Result<std::string> {
    std::string out;
    for (const TokenId id : ids) {
      const std::string_view bytes = KVANT_TRY(bytes_of(id));
      if (special == SpecialOutput::kSkip && is_special(id)) continue;
      out += bytes;
    }
    return out;
  });
}

Result<std::string> Tokenizer::decode_text(std::span<const TokenId> ids,
                                           SpecialOutput special) const {
  return without_bad_alloc([&]() -> Result<std::string> {
    const std::string bytes = KVANT_TRY(decode_bytes(ids, special));
    std::string out;
    Utf8Repair repair;
    repair.push(bytes, out);
    repair.flush(out);
    return out;
  });
}

std::optional<TokenId> Tokenizer::find(std::string_view text) const {
  const auto added = data_->added.find(text);
  if (added) return added;
  const auto word = data_->words.find(text);
  if (word == data_->words.end()) return std::nullopt;
  return word->second;
}

std::optional<TokenId> Tokenizer::find_added(std::string_view text) const {
  return data_->added.find(text);
}

bool Tokenizer::is_special(TokenId id) const {
  return is_known(id) && data_->pieces[static_cast<std::size_t>(id)].kind == PieceKind::kSpecial;
}

bool Tokenizer::is_known(TokenId id) const { return data_->is_known(id); }

std::int64_t Tokenizer::n_ids() const { return static_cast<std::int64_t>(data_->pieces.size()); }

std::int64_t Tokenizer::n_tokens() const { return data_->n_tokens; }

std::optional<TokenId> Tokenizer::bos_id() const { return data_->bos_id; }

std::optional<TokenId> Tokenizer::eos_id() const { return data_->eos_id; }

bool Tokenizer::adds_bos() const { return data_->adds_bos; }

const std::string& Tokenizer::chat_template() const { return data_->chat_template; }

Result<std::string> StreamDecoder::push(TokenId id) {
  const std::string_view bytes = KVANT_TRY(tokenizer_.bytes_of(id));
  if (special_ == SpecialOutput::kSkip && tokenizer_.is_special(id)) return std::string();
  return without_bad_alloc([&]() -> Result<std::string> {
    std::string out;
    repair_.push(bytes, out);
    return out;
  });
}

std::string StreamDecoder::flush() {
  std::string out;
  repair_.flush(out);
  return out;
}

}  // namespace kvant::model
