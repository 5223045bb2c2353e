#include "kvant/model/added_tokens.h"

#include <algorithm>
#include <utility>

namespace kvant::model {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.text < b.text; });
  for (const AddedToken& token : tokens_) {
    first_bytes_.set(static_cast<unsigned char>(token.text.front()));
  }
}

std::optional<AddedTokens::Match> AddedTokens::match_at(std::string_view text,
                                                        std::size_t begin) const {
  std::optional<Match> longest;
  auto low = tokens_.begin();
  auto high = tokens_.end();
  // All tokens in [low, high) share their first `depth` bytes with the text.
  for (std::size_t depth = 0; low != high; ++depth) {
    if (low->text.size() == depth) {
      longest = Match{.begin = begin, .n_bytes = depth, .id = low->id};
      ++low;
    }
    if (begin + depth == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[begin + depth]);
    const auto byte_at = [depth](const AddedToken& token) {
      return static_cast<unsigned char>(token.text[depth]);
    };
    low = std::partition_point(low, high, [&](const AddedToken& t) { return byte_at(t) < byte; });
    high = std::partition_point(low, high, [&](const AddedToken& t) { return byte_at(t) == byte; });
  }
  return longest;
}

std::optional<AddedTokens::Match> AddedTokens::find_next(std::string_view text,
                                                         std::size_t from) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!first_bytes_.test(static_cast<unsigned char>(text[at]))) continue;
    const auto match = match_at(text, at);
    if (match) return match;
  }
  return std::nullopt;
}

std::optional<TokenId> AddedTokens::find(std::string_view text) const {
  const auto at = std::lower_bound(
      tokens_.begin(), tokens_.end(), text,
      [](const AddedToken& token, std::string_view wanted) { return token.text < wanted; });
  if (at == tokens_.end() || at->text != text) return std::nullopt;
  return at->id;
}

}  // namespace kvant::model
