#include "kvant/model/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/model/unicode.h"
#include "tests/support/split_oracle.h"

namespace kvant::model {
namespace {

using ::testing::ElementsAre;

std::vector<std::size_t> ends_of(SplitPattern pattern, std::string_view text) {
  std::vector<std::size_t> ends;
  for (std::size_t at = 0; at < text.size();) {
    at = word_end(pattern, text, at);
    ends.push_back(at);
  }
  return ends;
}

std::vector<std::string> words_of(SplitPattern pattern, std::string_view text) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  for (const std::size_t end : ends_of(pattern, text)) {
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

std::vector<std::string> llama3_words(std::string_view text) {
  return words_of(SplitPattern::kLlama3, text);
}

struct Judge {
  SplitPattern pattern;
  test::SplitOracle oracle;
};

const std::vector<Judge>& judges() {
  static const std::vector<Judge> all = [] {
    std::vector<Judge> out;
    out.push_back({SplitPattern::kLlama3, test::SplitOracle(test::kLlama3Regex)});
    out.push_back({SplitPattern::kQwen2, test::SplitOracle(test::kQwen2Regex)});
    out.push_back({SplitPattern::kGpt2, test::SplitOracle(test::kGpt2Regex)});
    return out;
  }();
  return all;
}

void expect_as_oracle(std::string_view text) {
  for (const Judge& judge : judges()) {
    ASSERT_TRUE(judge.oracle.judges(text));
    EXPECT_EQ(ends_of(judge.pattern, text), judge.oracle.ends(text))
        << "pattern " << static_cast<int>(judge.pattern) << ", text "
        << ::testing::PrintToString(std::string(text));
  }
}

// What texts are made of: every class, its borders, and the characters that engines disagree on.
constexpr std::string_view kAtoms[] = {"'",
                                       "s",
                                       "S",
                                       "\u017F",
                                       "t",
                                       "T",
                                       "re",
                                       "RE",
                                       "rE",
                                       "ve",
                                       "VE",
                                       "m",
                                       "M",
                                       "ll",
                                       "LL",
                                       "lL",
                                       "d",
                                       "D",
                                       "k",
                                       "\u212A",
                                       "a",
                                       "Zz",
                                       " ",
                                       "  ",
                                       "\n",
                                       "\r",
                                       "\r\n",
                                       "\t",
                                       "\v",
                                       "\f",
                                       "\u0085",
                                       "\u00A0",
                                       "\u1680",
                                       "\u2003",
                                       "\u2028",
                                       "\u2029",
                                       "\u202F",
                                       "\u205F",
                                       "\u3000",
                                       "\u200B",
                                       "\u200D",
                                       "1",
                                       "23",
                                       "4567",
                                       "\u0663",
                                       "\u2167",
                                       "\u00BD",
                                       "\u4E00",
                                       "\uAC00",
                                       "\u05D0",
                                       "e\u0301",
                                       "\u00E9",
                                       "\u0301",
                                       "\u1D2C",
                                       "!",
                                       "...",
                                       "-",
                                       "_",
                                       "\U0001F600",
                                       "\U0001F468\u200D\U0001F469",
                                       "\uFE0F",
                                       "\u2019",
                                       "\u00DF",
                                       "\uFB06",
                                       "\u0130",
                                       "\u01C5",
                                       "\uFFFD",
                                       "\U0010FFFF",
                                       "\uE000",
                                       "<|im_end|>",
                                       std::string_view("\0", 1),
                                       "\x7F",
                                       "\x80",
                                       "\xBF",
                                       "\xC3",
                                       "\xE2\x82",
                                       "\xF0\x9F",
                                       "\xED\xA0\x80",
                                       "\xFF",
                                       "\xC0\x80"};

const std::vector<std::string>& atoms() {
  static const std::vector<std::string> all(std::begin(kAtoms), std::end(kAtoms));
  return all;
}

TEST(Pretokenizer, KnowsItsPatternsByTheirExactText) {
  EXPECT_EQ(pattern_from_regex(test::kLlama3Regex), SplitPattern::kLlama3);
  EXPECT_EQ(pattern_from_regex(test::kQwen2Regex), SplitPattern::kQwen2);
  EXPECT_EQ(pattern_from_regex(test::kGpt2Regex), SplitPattern::kGpt2);
  EXPECT_EQ(pattern_from_regex(""), std::nullopt);
  EXPECT_EQ(pattern_from_regex(std::string(test::kLlama3Regex) + " "), std::nullopt);
  EXPECT_EQ(pattern_from_regex(R"(\s+)"), std::nullopt);
}

// Cases from bug reports of other programs: line ends, numbers, contractions, accents.
TEST(Pretokenizer, SplitsAsThePatternReads) {
  EXPECT_THAT(llama3_words("a\r\n\r\nb"), ElementsAre("a", "\r\n\r\n", "b"));
  EXPECT_THAT(llama3_words("x \n  y"), ElementsAre("x", " \n", " ", " y"));
  EXPECT_THAT(llama3_words("1234567"), ElementsAre("123", "456", "7"));
  EXPECT_THAT(words_of(SplitPattern::kQwen2, "1234"), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(words_of(SplitPattern::kGpt2, "a 1234"), ElementsAre("a", " 1234"));
  EXPECT_THAT(llama3_words("don't DON'T"), ElementsAre("don", "'t", " DON", "'T"));
  EXPECT_THAT(words_of(SplitPattern::kGpt2, "DON'T"), ElementsAre("DON", "'", "T"));
  EXPECT_THAT(llama3_words("\tx\t\ty"), ElementsAre("\tx", "\t", "\ty"));
  EXPECT_THAT(llama3_words("Caf\u00E9 d\u00E9j\u00E0 \u2014 123"),
              ElementsAre("Caf\u00E9", " d\u00E9j\u00E0", " \u2014", " ", "123"));
  EXPECT_THAT(llama3_words("Cafe\u0301s"), ElementsAre("Cafe", "\u0301s"));
  EXPECT_THAT(llama3_words("end.\n\nNext"), ElementsAre("end", ".\n\n", "Next"));
  EXPECT_THAT(llama3_words("   "), ElementsAre("   "));
  EXPECT_THAT(llama3_words(""), ElementsAre());
}

// The long s folds to s, so engines with Unicode case folding see a contraction.
TEST(Pretokenizer, ContractionsFoldCaseBeyondAscii) {
  EXPECT_THAT(llama3_words("it'\u017Fx"), ElementsAre("it", "'\u017F", "x"));
  EXPECT_THAT(words_of(SplitPattern::kGpt2, "it'\u017Fx"), ElementsAre("it", "'", "\u017Fx"));
  expect_as_oracle("'\u017F '\u212A 'K");
}

TEST(Pretokenizer, AStrayByteIsAnOtherCharacter) {
  EXPECT_THAT(llama3_words("a\xFF\xFE!"), ElementsAre("a", "\xFF\xFE!"));
  EXPECT_THAT(llama3_words("\xE2\x82x"), ElementsAre("\xE2\x82", "x"))
      << "a run of two, none of which can lead the letters";
  EXPECT_THAT(llama3_words("\xFFx"), ElementsAre("\xFFx"));
}

// Counts the texts on which splitter and oracle differ; shows the first few.
class Comparison {
 public:
  void check(const std::string& text) {
    for (const Judge& judge : judges()) {
      if (ends_of(judge.pattern, text) == judge.oracle.ends(text)) continue;
      if (++n_failures_ <= 5) expect_as_oracle(text);
    }
  }
  std::size_t n_failures() const { return n_failures_; }

 private:
  std::size_t n_failures_ = 0;
};

TEST(Pretokenizer, AllTextsOfTwoAtomsSplitAsTheOracleDoes) {
  Comparison comparison;
  for (const std::string& a : atoms()) {
    for (const std::string& b : atoms()) comparison.check(a + b);
  }
  EXPECT_EQ(comparison.n_failures(), 0U);
}

// One atom of each kind is enough to meet every order of alternatives.
TEST(Pretokenizer, AllTextsOfFourKindsOfCharacterSplitAsTheOracleDoes) {
  const std::vector<std::string> kinds = {"s",  "\u00E9", "7", " ", "\n",
                                          "\r", "\t",     "'", "!", "\xFF"};
  Comparison comparison;
  for (const std::string& a : kinds) {
    for (const std::string& b : kinds) {
      for (const std::string& c : kinds) {
        for (const std::string& d : kinds) comparison.check(a + b + c + d);
      }
    }
  }
  EXPECT_EQ(comparison.n_failures(), 0U);
}

RC_GTEST_PROP(Pretokenizer, RandomTextsSplitAsTheOracleDoes, ()) {
  const auto picks = *rc::gen::container<std::vector<std::size_t>>(
      rc::gen::inRange<std::size_t>(0, atoms().size()));
  std::string text;
  for (const std::size_t pick : picks) text += atoms()[pick];
  for (const Judge& judge : judges()) {
    RC_ASSERT(ends_of(judge.pattern, text) == judge.oracle.ends(text));
  }
}

// A text in which the class of `code` decides where words end.
std::string telling_text(std::uint32_t code) {
  std::string c;
  append_utf8(code, c);
  return "1" + c + "!" + c + "a " + c;
}

TEST(Pretokenizer, EveryCharacterIsOfTheClassThatTheOracleGivesIt) {
  const Judge& judge = judges().front();
  std::size_t n_failures = 0;
  std::size_t n_judged = 0;
  for (std::uint32_t code = 0; code < 0x110000; ++code) {
    if (code == 0xD800) code = 0xE000;     // surrogates are no characters
    if (code == 0x40000) code = 0xE0000;   // planes without characters
    if (code == 0xE1000) code = 0x10FF00;  // private use
    const std::string text = telling_text(code);
    if (!judge.oracle.judges(text)) continue;
    ++n_judged;
    if (ends_of(judge.pattern, text) == judge.oracle.ends(text)) continue;
    if (++n_failures <= 10) ADD_FAILURE() << "U+" << std::hex << code;
  }
  EXPECT_EQ(n_failures, 0U);
  EXPECT_GT(n_judged, 140000U) << "the characters of Unicode 14";
}

TEST(Pretokenizer, LongRunsOfOneCharacterSplitAsTheOracleDoes) {
  for (const std::string atom : {"a", "1", " ", "\n", "\t", "!", "\xFF", "\u00A0", " \n", "'s"}) {
    std::string text;
    while (text.size() < 3000) text += atom;
    expect_as_oracle(text);
    expect_as_oracle(text + "x");
    expect_as_oracle("x" + text + "!");
  }
}

}  // namespace
}  // namespace kvant::model
