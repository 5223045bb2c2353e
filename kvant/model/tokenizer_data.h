// The immutable tables behind a Tokenizer. Internal to the room.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/model/added_tokens.h"
#include "kvant/model/bpe.h"
#include "kvant/model/json_text.h"
#include "kvant/model/pretokenizer.h"

namespace kvant::model {

enum class PieceKind : std::uint8_t {
  kUnused,   // an id that the file skips
  kWord,     // made by merging
  kAdded,    // found in the text as a whole
  kSpecial,  // added, and no text: skipped when decoding
};

struct Piece {
  std::uint32_t begin = 0;  // in piece_bytes
  std::uint32_t n_bytes = 0;
  PieceKind kind = PieceKind::kUnused;
};

struct TokenizerData {
  std::string piece_bytes;    // the bytes of all pieces, back to back
  std::vector<Piece> pieces;  // [n_ids]
  std::int64_t n_tokens = 0;
  // Words by their bytes, special ones left out; the keys lie in piece_bytes.
  std::unordered_map<std::string_view, TokenId> words;
  AddedTokens added;
  MergeTable merges;
  std::array<TokenId, 256> byte_ids{};
  SplitPattern pattern = SplitPattern::kLlama3;
  bool ignore_merges = false;  // a word that is in the vocabulary is taken whole
  std::optional<TokenId> bos_id;
  std::optional<TokenId> eos_id;
  bool adds_bos = false;
  std::string chat_template;

  std::string_view bytes_of(const Piece& piece) const {
    return std::string_view(piece_bytes).substr(piece.begin, piece.n_bytes);
  }
  bool is_known(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < pieces.size() &&
           pieces[static_cast<std::size_t>(id)].kind != PieceKind::kUnused;
  }
};

// Reads a tokenizer.json and a tokenizer_config.json (no text: none).
// Errors: as Tokenizer::parse.
NamedResult<std::shared_ptr<TokenizerData>> read_tokenizer(JsonText json, JsonText config,
                                                           std::int64_t vocab_size);

}  // namespace kvant::model
