#include "kvant/model/pretokenizer.h"

#include <array>
#include <limits>

#include "kvant/model/unicode.h"

namespace kvant::model {
namespace {

enum class Case : std::uint8_t { kExact, kFolded };
enum class LetterLead : std::uint8_t {
  kSpace,    // ` ?`
  kAnyOther  // `[^\r\n\p{L}\p{N}]?`
};
enum class NumberLead : std::uint8_t { kNone, kSpace };
enum class LineEnds : std::uint8_t {
  kPlain,  // CR and LF are white space like any other
  kOwn,    // `[\r\n]*` after other characters, `\s*[\r\n]+` as an alternative
};

struct Rules {
  SplitPattern pattern;
  std::string_view regex;
  Case contractions;
  LetterLead letter_lead;
  NumberLead number_lead;
  std::size_t numbers_max;
  LineEnds line_ends;
};

constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

// Indexed by SplitPattern. The regular expressions are facts of the tokenizer files.
constexpr std::array<Rules, 3> kRules = {{
    {SplitPattern::kLlama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Case::kFolded, LetterLead::kAnyOther, NumberLead::kNone, 3, LineEnds::kOwn},
    {SplitPattern::kQwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Case::kFolded, LetterLead::kAnyOther, NumberLead::kNone, 1, LineEnds::kOwn},
    {SplitPattern::kGpt2,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Case::kExact,
     LetterLead::kSpace, NumberLead::kSpace, kUnbounded, LineEnds::kPlain},
}};

// A place in the text and the class of the character there.
class Cursor {
 public:
  Cursor(std::string_view text, std::size_t at) : text_(text), at_(at) { look(); }

  bool done() const { return at_ == text_.size(); }
  bool is(CharClass c) const { return !done() && class_ == c; }
  bool is_white_space() const {
    return is(CharClass::kSpace) || is(CharClass::kBlank) || is(CharClass::kNewline);
  }
  std::size_t at() const { return at_; }
  void next() {
    at_ += n_bytes_;
    look();
  }
  Cursor following() const {
    Cursor copy = *this;
    copy.next();
    return copy;
  }
  // Passes at most `max` characters of one class; says how many.
  std::size_t skip(CharClass c, std::size_t max = kUnbounded) {
    std::size_t n = 0;
    for (; n < max && is(c); ++n) next();
    return n;
  }

 private:
  void look() {
    if (done()) return;
    const Char c = read_char(text_.substr(at_));
    n_bytes_ = c.n_bytes;
    class_ = c.well_formed ? class_of(c.code) : CharClass::kOther;
  }

  std::string_view text_;
  std::size_t at_;
  std::size_t n_bytes_ = 0;
  CharClass class_ = CharClass::kOther;
};

char fold(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

// Length of the contraction at the front of `text`, 0 if there is none.
std::size_t contraction_length(std::string_view text, Case letters) {
  if (text.empty() || text[0] != '\'') return 0;
  const std::string_view rest = text.substr(1);
  // U+017F, the long s, is the only character beyond ASCII whose simple case folding is one of
  // these letters.
  constexpr std::string_view kLongS = "\xC5\xBF";
  if (letters == Case::kFolded && rest.starts_with(kLongS)) return 1 + kLongS.size();
  for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
    if (rest.size() < ending.size()) continue;
    bool equal = true;
    for (std::size_t i = 0; i < ending.size(); ++i) {
      equal = equal && (letters == Case::kFolded ? fold(rest[i]) : rest[i]) == ending[i];
    }
    if (equal) return 1 + ending.size();
  }
  return 0;
}

// Alternatives 5 to 7 at the first character of white space.
std::size_t white_space_end(const Rules& rules, Cursor cursor) {
  const std::size_t begin = cursor.at();
  std::size_t last_begin = begin;  // of the last character of the run
  std::size_t after_line_end = begin;
  while (cursor.is_white_space()) {
    const bool is_line_end = cursor.is(CharClass::kNewline);
    last_begin = cursor.at();
    cursor.next();
    if (is_line_end) after_line_end = cursor.at();
  }
  if (rules.line_ends == LineEnds::kOwn && after_line_end != begin) return after_line_end;
  if (cursor.done() || last_begin == begin) return cursor.at();
  return last_begin;
}

}  // namespace

std::optional<SplitPattern> pattern_from_regex(std::string_view regex) {
  for (const Rules& rules : kRules) {
    if (rules.regex == regex) return rules.pattern;
  }
  return std::nullopt;
}

std::size_t word_end(SplitPattern pattern, std::string_view text, std::size_t at) {
  const Rules& rules = kRules[static_cast<std::size_t>(pattern)];
  const std::size_t contraction = contraction_length(text.substr(at), rules.contractions);
  if (contraction != 0) return at + contraction;

  const Cursor start(text, at);
  const Cursor second = start.following();

  const bool may_lead_letters =
      start.is(CharClass::kSpace) || (rules.letter_lead == LetterLead::kAnyOther &&
                                      (start.is(CharClass::kBlank) || start.is(CharClass::kOther)));
  Cursor letters = may_lead_letters ? second : start;
  if (letters.skip(CharClass::kLetter) > 0) return letters.at();

  const bool space_leads = start.is(CharClass::kSpace);
  Cursor numbers = space_leads && rules.number_lead == NumberLead::kSpace ? second : start;
  if (numbers.skip(CharClass::kNumber, rules.numbers_max) > 0) return numbers.at();

  Cursor others = space_leads ? second : start;
  if (others.skip(CharClass::kOther) > 0) {
    if (rules.line_ends == LineEnds::kOwn) others.skip(CharClass::kNewline);
    return others.at();
  }
  return white_space_end(rules, start);
}

}  // namespace kvant::model
