// Reads tokenizer.json: vocabulary, added tokens, merges. See tokenizer_parts.h for the rest.
#include <fmt/format.h>

#include <utility>

#include "kvant/model/byte_alphabet.h"
#include "kvant/model/config.h"
#include "kvant/model/json.h"
#include "kvant/model/tokenizer_data.h"
#include "kvant/model/tokenizer_parts.h"

namespace kvant::model {
namespace {

constexpr JsonLimits kTokenizerLimits{.bytes_max = std::size_t{128} << 20, .depth_max = 32};
constexpr JsonLimits kConfigLimits{.bytes_max = std::size_t{16} << 20, .depth_max = 32};
constexpr std::size_t kAddedTextBytesMax = 1024;

class Reader {
 public:
  Reader(const JsonObject& root, std::int64_t vocab_size)
      : root_(root), vocab_size_(vocab_size), data_(std::make_shared<TokenizerData>()) {}

  NamedResult<std::shared_ptr<TokenizerData>> read() {
    KVANT_TRY(check_normalizer_and_decoder(root_));
    data_->pattern = KVANT_TRY(read_pre_tokenizer(root_));
    const JsonObject model = KVANT_TRY(root_.object("model"));
    KVANT_TRY(check_model(model));
    const JsonObject vocabulary = KVANT_TRY(model.object("vocab"));
    KVANT_TRY(limit_ids(vocabulary));
    KVANT_TRY(read_vocabulary(vocabulary));
    KVANT_TRY(read_added_tokens());
    index_words();
    KVANT_TRY(find_byte_symbols(model));
    KVANT_TRY(read_merges(model));
    KVANT_TRY(frame_texts());
    return std::move(data_);
  }

 private:
  NamedStatus check_model(const JsonObject& model);
  NamedStatus limit_ids(const JsonObject& vocabulary);
  NamedStatus read_vocabulary(const JsonObject& vocabulary);
  NamedStatus read_added_tokens();
  NamedResult<AddedToken> read_added_token(const JsonObject& entry);
  void index_words();
  NamedStatus find_byte_symbols(const JsonObject& model);
  NamedStatus read_merges(const JsonObject& model);
  NamedResult<Merge> read_merge(const JsonValue& value, const std::string& where) const;
  NamedResult<TokenId> known_piece(std::string_view text, const std::string& where) const;
  NamedStatus frame_texts();

  NamedResult<TokenId> checked_id(const JsonValue& value, const std::string& where) const;
  Piece& piece(TokenId id);
  NamedStatus define(TokenId id, PieceKind kind, std::string_view bytes);

  const JsonObject& root_;
  std::int64_t vocab_size_;
  std::int64_t n_ids_max_ = 0;  // given how many tokens the file has
  std::shared_ptr<TokenizerData> data_;
  // The file's own spelling of each vocabulary entry; the keys lie in the document.
  std::unordered_map<std::string_view, TokenId> id_of_text_;
};

NamedResult<TokenId> Reader::checked_id(const JsonValue& value, const std::string& where) const {
  std::int64_t id = 0;
  if (value.get_int64().get(id) != simdjson::SUCCESS || id < 0) {
    id = KVANT_TRY(checked_integer(value, where, {.min = 0, .max = vocab_size_ - 1}));
  }
  if (id >= vocab_size_) {
    return NamedError({.code = ErrorCode::kTokenOutOfRange,
                       .actual = static_cast<std::uint64_t>(id),
                       .expected = static_cast<std::uint64_t>(vocab_size_)},
                      where);
  }
  if (id >= n_ids_max_) {
    return NamedError({.code = ErrorCode::kLimitExceeded,
                       .actual = static_cast<std::uint64_t>(id),
                       .expected = static_cast<std::uint64_t>(n_ids_max_)},
                      where + ": far beyond the number of tokens");
  }
  return static_cast<TokenId>(id);
}

Piece& Reader::piece(TokenId id) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= data_->pieces.size()) data_->pieces.resize(index + 1);
  return data_->pieces[index];
}

NamedStatus Reader::define(TokenId id, PieceKind kind, std::string_view bytes) {
  Piece& slot = piece(id);
  if (slot.kind != PieceKind::kUnused) {
    return NamedError(
        {.code = ErrorCode::kDuplicateName},
        fmt::format("{}: two tokens have id {}, one is {}", root_.where(), id, in_quotes(bytes)));
  }
  slot = {.begin = static_cast<std::uint32_t>(data_->piece_bytes.size()),
          .n_bytes = static_cast<std::uint32_t>(bytes.size()),
          .kind = kind};
  data_->piece_bytes += bytes;
  ++data_->n_tokens;
  return {};
}

NamedStatus Reader::check_model(const JsonObject& model) {
  const auto unsupported = [&](std::string_view key, std::string_view supported) {
    return NamedError({.code = ErrorCode::kUnsupported},
                      fmt::format("{}: {} is {}, supported is {}", model.where(), key,
                                  describe_json(*model.find(key)), supported));
  };
  if (KVANT_TRY(model.text("type")) != "BPE") return unsupported("type", "'BPE'");
  if (KVANT_TRY(model.find_number("dropout")).value_or(0) != 0) {
    return unsupported("dropout", "null");
  }
  if (KVANT_TRY(model.find_flag("byte_fallback")).value_or(false)) {
    return unsupported("byte_fallback", "false");
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!KVANT_TRY(model.find_text(key)).value_or("").empty()) return unsupported(key, "null");
  }
  data_->ignore_merges = KVANT_TRY(model.find_flag("ignore_merges")).value_or(false);
  return {};
}

// Ids may skip numbers, but a file of a few bytes must not make a table of millions of ids.
NamedStatus Reader::limit_ids(const JsonObject& vocabulary) {
  constexpr std::size_t kSpareIds = 1024;
  std::size_t n_tokens = vocabulary.members().size();
  const auto added = KVANT_TRY(root_.find_array("added_tokens"));
  if (added) n_tokens += added->size();
  n_ids_max_ = static_cast<std::int64_t>(2 * n_tokens + kSpareIds);
  return {};
}

NamedStatus Reader::read_vocabulary(const JsonObject& vocabulary) {
  id_of_text_.reserve(vocabulary.members().size());
  for (const JsonObject::Member& entry : vocabulary.members()) {
    const TokenId id = KVANT_TRY(
        checked_id(entry.value, fmt::format("{}: {}", vocabulary.where(), in_quotes(entry.key))));
    // An entry outside the alphabet cannot be made from bytes; it stands for its own text.
    const auto bytes = bytes_of_symbols(entry.key);
    KVANT_TRY(define(id, PieceKind::kWord, bytes ? *bytes : std::string(entry.key)));
    id_of_text_.emplace(entry.key, id);
  }
  return {};
}

NamedResult<AddedToken> Reader::read_added_token(const JsonObject& entry) {
  const JsonValue* id_value = entry.find("id");
  if (id_value == nullptr) return entry.missing_key("id");
  const TokenId id = KVANT_TRY(checked_id(*id_value, entry.where() + ": id"));
  const std::string_view text = KVANT_TRY(entry.text("content"));
  if (text.empty() || text.size() > kAddedTextBytesMax) {
    return entry.bad_value("content", fmt::format("1 to {} bytes", kAddedTextBytesMax));
  }
  for (const std::string_view key : {"single_word", "lstrip", "rstrip"}) {
    if (!KVANT_TRY(entry.find_flag(key)).value_or(false)) continue;
    return NamedError({.code = ErrorCode::kUnsupported},
                      fmt::format("{}: {} of {} is true, supported is false", entry.where(), key,
                                  in_quotes(text)));
  }
  const bool is_special = KVANT_TRY(entry.find_flag("special")).value_or(false);
  const PieceKind kind = is_special ? PieceKind::kSpecial : PieceKind::kAdded;
  const auto in_vocabulary = id_of_text_.find(text);
  if (in_vocabulary == id_of_text_.end()) {
    KVANT_TRY(define(id, kind, text));
    return AddedToken{.text = std::string(text), .id = id};
  }
  Piece& slot = piece(id);
  if (in_vocabulary->second != id || slot.kind != PieceKind::kWord) {
    return NamedError({.code = ErrorCode::kDuplicateName},
                      fmt::format("{}: {} has id {}, in the vocabulary {}", entry.where(),
                                  in_quotes(text), id, in_vocabulary->second));
  }
  // The text itself, also where the alphabet reads its characters as other bytes.
  slot = {.begin = static_cast<std::uint32_t>(data_->piece_bytes.size()),
          .n_bytes = static_cast<std::uint32_t>(text.size()),
          .kind = kind};
  data_->piece_bytes += text;
  return AddedToken{.text = std::string(text), .id = id};
}

NamedStatus Reader::read_added_tokens() {
  const auto array = KVANT_TRY(root_.find_array("added_tokens"));
  if (!array) return {};
  std::vector<AddedToken> tokens;
  for (const JsonValue value : *array) {
    const JsonObject entry = KVANT_TRY(JsonObject::create(value, root_.where() + ": added_tokens"));
    tokens.push_back(KVANT_TRY(read_added_token(entry)));
  }
  // Equal texts have been refused only where they share the vocabulary's entry.
  std::unordered_map<std::string_view, TokenId> seen;
  for (const AddedToken& token : tokens) {
    if (seen.emplace(token.text, token.id).second) continue;
    return NamedError({.code = ErrorCode::kDuplicateName},
                      fmt::format("{}: added_tokens: {}", root_.where(), in_quotes(token.text)));
  }
  data_->added = AddedTokens(std::move(tokens));
  return {};
}

void Reader::index_words() {
  data_->words.reserve(id_of_text_.size());
  for (const auto& [text, id] : id_of_text_) {
    const Piece& slot = piece(id);
    if (slot.kind == PieceKind::kSpecial || !bytes_of_symbols(text)) continue;
    data_->words.emplace(data_->bytes_of(slot), id);
  }
}

NamedStatus Reader::find_byte_symbols(const JsonObject& model) {
  for (std::size_t byte = 0; byte < data_->byte_ids.size(); ++byte) {
    const std::string symbol = byte_symbol(static_cast<std::uint8_t>(byte));
    const auto found = id_of_text_.find(symbol);
    if (found == id_of_text_.end() || piece(found->second).kind == PieceKind::kSpecial) {
      return NamedError(
          {.code = ErrorCode::kMissingKey},
          fmt::format("{}: vocab: {}, the plain token of byte 0x{:02X}; all 256 are needed",
                      model.where(), in_quotes(symbol), byte));
    }
    data_->byte_ids[byte] = found->second;
  }
  return {};
}

NamedResult<TokenId> Reader::known_piece(std::string_view text, const std::string& where) const {
  const auto found = id_of_text_.find(text);
  if (found != id_of_text_.end()) return found->second;
  return NamedError({.code = ErrorCode::kBadValue},
                    fmt::format("{}: {} is not in the vocabulary", where, in_quotes(text)));
}

NamedResult<Merge> Reader::read_merge(const JsonValue& value, const std::string& where) const {
  const auto malformed = [&] {
    return NamedError({.code = ErrorCode::kBadValue},
                      fmt::format("{} is {}, allowed is 'left right' or ['left', 'right']", where,
                                  describe_json(value)));
  };
  std::string_view sides[2];
  simdjson::dom::array pair;
  std::string_view joined;
  if (value.get_array().get(pair) == simdjson::SUCCESS) {
    std::size_t n_sides = 0;
    for (const JsonValue side : pair) {
      if (n_sides == 2 || side.get_string().get(sides[n_sides]) != simdjson::SUCCESS) {
        return malformed();
      }
      ++n_sides;
    }
    if (n_sides != 2) return malformed();
  } else if (value.get_string().get(joined) == simdjson::SUCCESS) {
    const std::size_t blank = joined.find(' ');
    if (blank == std::string_view::npos || blank != joined.rfind(' ')) return malformed();
    sides[0] = joined.substr(0, blank);
    sides[1] = joined.substr(blank + 1);
  } else {
    return malformed();
  }
  Merge merge;
  merge.left = KVANT_TRY(known_piece(sides[0], where));
  merge.right = KVANT_TRY(known_piece(sides[1], where));
  merge.result = KVANT_TRY(known_piece(std::string(sides[0]) + std::string(sides[1]), where));
  return merge;
}

NamedStatus Reader::read_merges(const JsonObject& model) {
  const simdjson::dom::array array = KVANT_TRY(model.array("merges"));
  std::uint32_t rank = 0;
  for (const JsonValue value : array) {
    const std::string where = fmt::format("{}: merges: entry {}", model.where(), rank);
    Merge merge = KVANT_TRY(read_merge(value, where));
    merge.rank = rank++;
    if (piece(merge.result).kind == PieceKind::kSpecial) {
      return NamedError({.code = ErrorCode::kBadValue},
                        where + " makes a special token out of plain text");
    }
    // Programs disagree on which of two ranks counts, so neither is taken.
    if (!data_->merges.insert(merge)) {
      return NamedError({.code = ErrorCode::kDuplicateName}, where);
    }
  }
  return {};
}

NamedStatus Reader::frame_texts() {
  const Framing framing = KVANT_TRY(read_framing(root_));
  if (!framing.bos_text) return {};
  data_->bos_id = data_->added.find(*framing.bos_text);
  if (!data_->bos_id) {
    return NamedError({.code = ErrorCode::kBadValue},
                      fmt::format("{}: post_processor: {} is not an added token", root_.where(),
                                  in_quotes(*framing.bos_text)));
  }
  data_->adds_bos = true;
  return {};
}

// A token that tokenizer_config.json names: a text, or an object with its content.
NamedResult<std::optional<TokenId>> read_named_token(const JsonObject& config, std::string_view key,
                                                     const TokenizerData& data) {
  const JsonValue* value = config.find(key);
  if (value == nullptr) return std::optional<TokenId>();
  std::string_view text;
  if (value->get_string().get(text) != simdjson::SUCCESS) {
    const JsonObject object = KVANT_TRY(config.object(key));
    text = KVANT_TRY(object.text("content"));
  }
  const auto id = data.added.find(text);
  if (!id) return config.bad_value(key, "an added token of tokenizer.json");
  return id;
}

// A text, or a list of named ones of which "default" is meant.
NamedResult<std::string> read_chat_template(const JsonObject& config) {
  constexpr std::string_view kKey = "chat_template";
  const JsonValue* value = config.find(kKey);
  if (value == nullptr) return std::string();
  simdjson::dom::array list;
  if (value->get_array().get(list) != simdjson::SUCCESS) {
    return std::string(KVANT_TRY(config.text(kKey)));
  }
  for (const JsonValue entry : list) {
    const JsonObject named =
        KVANT_TRY(JsonObject::create(entry, config.where() + ": chat_template"));
    if (KVANT_TRY(named.text("name")) == "default") {
      return std::string(KVANT_TRY(named.text("template")));
    }
  }
  return std::string();
}

NamedStatus read_tokenizer_config(JsonText json, bool framing_is_given, TokenizerData& data) {
  const JsonDocument document = KVANT_TRY(JsonDocument::parse(json, kConfigLimits));
  const JsonObject config = KVANT_TRY(document.object());
  const auto bos = KVANT_TRY(read_named_token(config, "bos_token", data));
  if (bos) data.bos_id = bos;
  data.eos_id = KVANT_TRY(read_named_token(config, "eos_token", data));
  const auto adds_bos = KVANT_TRY(config.find_flag("add_bos_token"));
  // What the post_processor does is what the reference tokenizer does; the flag only speaks where
  // the file has none.
  if (adds_bos && !framing_is_given) data.adds_bos = *adds_bos && data.bos_id.has_value();
  data.chat_template = KVANT_TRY(read_chat_template(config));
  return {};
}

}  // namespace

NamedResult<std::shared_ptr<TokenizerData>> read_tokenizer(JsonText json, JsonText config,
                                                           std::int64_t vocab_size) {
  return without_bad_alloc([&]() -> NamedResult<std::shared_ptr<TokenizerData>> {
    if (vocab_size < 1 || vocab_size > limits::kVocabSizeMax) {
      return NamedError({.code = ErrorCode::kInvalidArgument,
                         .actual = static_cast<std::uint64_t>(vocab_size),
                         .expected = static_cast<std::uint64_t>(limits::kVocabSizeMax)},
                        "vocabulary size");
    }
    const JsonDocument document = KVANT_TRY(JsonDocument::parse(json, kTokenizerLimits));
    const JsonObject root = KVANT_TRY(document.object());
    auto data = KVANT_TRY(Reader(root, vocab_size).read());
    if (!config.text.empty()) {
      const bool framing_is_given = KVANT_TRY(read_framing(root)).present;
      KVANT_TRY(read_tokenizer_config(config, framing_is_given, *data));
    }
    return data;
  });
}

}  // namespace kvant::model
