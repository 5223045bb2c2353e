// The texts of added tokens, found in a text at the earliest position, the longest there.
//
// The texts are kept sorted; a match walks into the text byte by byte and narrows the range of
// texts that begin so, so one position costs at most the longest text times log(number of texts).
#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/units.h"

namespace kvant::model {

struct AddedToken {
  std::string text;
  TokenId id = 0;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // Requires: the texts are not empty and differ from one another.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Match {
    std::size_t begin = 0;
    std::size_t n_bytes = 0;
    TokenId id = 0;
  };
  // The first match at or after `from`.
  std::optional<Match> find_next(std::string_view text, std::size_t from) const;
  // The token with exactly this text.
  std::optional<TokenId> find(std::string_view text) const;

 private:
  std::optional<Match> match_at(std::string_view text, std::size_t begin) const;

  std::vector<AddedToken> tokens_;  // ascending by text
  std::bitset<256> first_bytes_;
};

}  // namespace kvant::model
