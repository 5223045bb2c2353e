// Cuts text into the words that byte-pair merging never crosses.
//
// Tokenizer files give the cut as a regular expression. The published byte-level tokenizers use a
// handful of them, built from the same alternatives, so each is a row of a table of rules here and
// one matcher walks the text over character classes. It does in one linear pass, without an
// allocation and on any bytes, what a backtracking engine does on valid UTF-8 only. A pattern that
// is not in the table is refused by its text, never guessed (docs/decisions/0004).
//
// The alternatives, tried in this order at each word's start:
//   1. an English contraction ('s 't 're 've 'm 'll 'd)
//   2. letters, with one character before them that the rule allows
//   3. numbers, at most so many
//   4. a run of other characters, with a space before and line ends after where the rule says so
//   5. white space up to its last line end
//   6. white space, but the last character is left to a word that follows
//   7. white space
// Every byte belongs to exactly one word. A byte that is not UTF-8 is an "other" character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kvant::model {

enum class SplitPattern : std::uint8_t {
  kLlama3,  // also LFM2, Granite 4, Falcon 3: numbers by three
  kQwen2,   // the same with numbers one by one
  kGpt2,    // the default of ByteLevel
};

// The pattern with exactly this regular expression.
std::optional<SplitPattern> pattern_from_regex(std::string_view regex);

// Where the word that starts at `at` ends.
// Requires: at < text.size(), at a border of words.
// Cost: O(length of the word and of the white space that follows it).
std::size_t word_end(SplitPattern pattern, std::string_view text, std::size_t at);

}  // namespace kvant::model
