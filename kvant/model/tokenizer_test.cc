#include "kvant/model/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kvant/base/prng.h"
#include "kvant/model/unicode.h"
#include "tests/support/tiny_tokenizer.h"

namespace kvant::model {
namespace {

using test::kTinyImEnd;
using test::kTinyImStart;
using test::kTinyStart;
using test::kTinyThink;
using test::kTinyThinkLine;
using test::parse_tokenizer;
using test::tiny_tokenizer;
using test::tiny_tokenizer_json;
using ::testing::ElementsAre;

constexpr EncodeOptions kAsText{.special = SpecialTokens::kAsText};
constexpr EncodeOptions kParse{.special = SpecialTokens::kParse};

std::string bytes_from(const std::vector<int>& values) {
  std::string out;
  for (const int value : values) out.push_back(static_cast<char>(value));
  return out;
}

std::string any_text() {
  static const std::vector<std::string> pieces = {
      "hello",   " world",    "aaaaaaa", "<|im_end|>", "<|im_start|>",
      "<think>", "<think>\n", "<|im",    "\xC3\xA9",   "\xF0\x9F\x98\x80",
      "\n\n",    " ",         "'s",      "1234"};
  std::string out;
  const auto n = *rc::gen::inRange(0, 12);
  for (int i = 0; i < n; ++i) {
    if (*rc::gen::inRange(0, 3) == 0) {
      out += bytes_from(*rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 256)));
    } else {
      out += *rc::gen::elementOf(pieces);
    }
  }
  return out;
}

TEST(Tokenizer, MergesWordsAndKeepsBytes) {
  const Tokenizer tokenizer = tiny_tokenizer();
  EXPECT_THAT(tokenizer.encode("hello world", kAsText).value(), ElementsAre(259, 262, 'l', 'd'));
  EXPECT_THAT(tokenizer.encode("", kAsText).value(), ElementsAre());
  EXPECT_THAT(tokenizer.encode("\xC3\xA9\xFF", kAsText).value(), ElementsAre(266, 0xFF));
  EXPECT_THAT(tokenizer.encode("it's", kAsText).value(), ElementsAre('i', 't', 267));
}

TEST(Tokenizer, WordsNeverMergeAcrossTheSplit) {
  const Tokenizer tokenizer = tiny_tokenizer();
  // "o r" has a merge without the blank, and "\n\n" is one word only when it stands together.
  EXPECT_THAT(tokenizer.encode("o r", kAsText).value(), ElementsAre('o', ' ', 'r'));
  EXPECT_THAT(tokenizer.encode("\n\n", kAsText).value(), ElementsAre(265));
}

TEST(Tokenizer, AddedTokensAreTextUnlessParsingIsAskedFor) {
  const Tokenizer tokenizer = tiny_tokenizer();
  const std::string text = "<|im_end|><think>";
  EXPECT_EQ(tokenizer.encode(text, kAsText)->size(), text.size()) << "one id a byte";
  EXPECT_THAT(tokenizer.encode(text, kParse).value(), ElementsAre(kTinyImEnd, kTinyThink));
}

TEST(Tokenizer, TheLongestAddedTokenAtTheEarliestPlaceWins) {
  const Tokenizer tokenizer = tiny_tokenizer();
  EXPECT_THAT(tokenizer.encode("<think>\nx", kParse).value(), ElementsAre(kTinyThinkLine, 'x'));
  EXPECT_THAT(tokenizer.encode("<think>x", kParse).value(), ElementsAre(kTinyThink, 'x'));
  EXPECT_THAT(tokenizer.encode("<<|im_end|>", kParse).value(), ElementsAre('<', kTinyImEnd));
  EXPECT_THAT(tokenizer.encode("<|im_end|", kParse).value().front(), '<');
}

TEST(Tokenizer, AWordAfterAnAddedTokenGainsNoBlank) {
  const Tokenizer tokenizer = tiny_tokenizer();
  EXPECT_THAT(tokenizer.encode("<|im_start|>hello", kParse).value(),
              ElementsAre(kTinyImStart, 259));
}

TEST(Tokenizer, BosIsAddedOnlyWhenAsked) {
  const Tokenizer plain = tiny_tokenizer();
  EXPECT_EQ(plain.bos_id(), std::nullopt);
  EXPECT_EQ(plain.encode("a", {.bos = Bos::kAdd}).error().code, ErrorCode::kUnsupported);
  const Tokenizer with_bos =
      parse_tokenizer(tiny_tokenizer_json(), {{"bos_token", "<|startoftext|>"}}).value();
  EXPECT_THAT(with_bos.encode("a", {.bos = Bos::kAdd}).value(), ElementsAre(kTinyStart, 'a'));
  EXPECT_THAT(with_bos.encode("a", {}).value(), ElementsAre('a'));
}

TEST(Tokenizer, TheFilesSayWhetherPlainTextStartsWithBos) {
  auto framed = tiny_tokenizer_json();
  framed["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single",
                               {{{"SpecialToken", {{"id", "<|startoftext|>"}, {"type_id", 0}}}},
                                {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}};
  const Tokenizer from_framing = parse_tokenizer(framed).value();
  EXPECT_TRUE(from_framing.adds_bos());
  EXPECT_EQ(from_framing.bos_id(), kTinyStart);
  EXPECT_THAT(from_framing.encode("a", kParse).value(), ElementsAre('a')) << "encode does not";

  const auto config = [](bool adds) {
    return nlohmann::json{{"bos_token", {{"content", "<|startoftext|>"}}}, {"add_bos_token", adds}};
  };
  EXPECT_TRUE(parse_tokenizer(tiny_tokenizer_json(), config(true))->adds_bos());
  EXPECT_FALSE(parse_tokenizer(tiny_tokenizer_json(), config(false))->adds_bos());
  EXPECT_TRUE(parse_tokenizer(framed, config(false))->adds_bos()) << "the post_processor decides";
}

TEST(Tokenizer, MergesAreReadInBothSpellings) {
  auto joined = tiny_tokenizer_json();
  for (auto& merge : joined["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  const Tokenizer a = tiny_tokenizer();
  const Tokenizer b = parse_tokenizer(joined).value();
  const std::string text = "hello world aaaa \xC3\xA9 it's\n\n";
  EXPECT_EQ(a.encode(text, kAsText).value(), b.encode(text, kAsText).value());
}

TEST(Tokenizer, IgnoreMergesTakesAWordOfTheVocabularyWhole) {
  auto json = tiny_tokenizer_json();
  json["model"]["vocab"]["world"] = 268;  // no merge makes it
  EXPECT_EQ(parse_tokenizer(json)->encode("world", kAsText)->size(), 4U) << "w or l d";
  json["model"]["ignore_merges"] = true;
  EXPECT_THAT(parse_tokenizer(json)->encode("world", kAsText).value(), ElementsAre(268));
}

TEST(Tokenizer, IgnoreMergesNeverMakesASpecialTokenFromText) {
  auto json = tiny_tokenizer_json();
  json["model"]["ignore_merges"] = true;
  json["model"]["vocab"]["stop"] = 305;
  json["added_tokens"].push_back({{"id", 305}, {"content", "stop"}, {"special", true}});
  const Tokenizer tokenizer = parse_tokenizer(json).value();
  EXPECT_EQ(tokenizer.encode("stop", kAsText)->size(), 4U);
  EXPECT_THAT(tokenizer.encode("stop", kParse).value(), ElementsAre(305));
}

TEST(Tokenizer, FindsTokensByText) {
  const Tokenizer tokenizer = tiny_tokenizer();
  EXPECT_EQ(tokenizer.find("hello"), 259);
  EXPECT_EQ(tokenizer.find(" wor"), 262);
  EXPECT_EQ(tokenizer.find("<|im_end|>"), kTinyImEnd);
  EXPECT_EQ(tokenizer.find("absent"), std::nullopt);
  EXPECT_EQ(tokenizer.find_added("hello"), std::nullopt);
  EXPECT_EQ(tokenizer.find_added("<think>"), kTinyThink);
}

TEST(Tokenizer, KnowsWhichIdsAreRealAndWhichArePadding) {
  const Tokenizer tokenizer = tiny_tokenizer();
  EXPECT_EQ(tokenizer.n_ids(), kTinyThinkLine + 1);
  EXPECT_EQ(tokenizer.n_tokens(), 256 + 12 + 5);
  EXPECT_TRUE(tokenizer.is_known(267));
  EXPECT_FALSE(tokenizer.is_known(268)) << "skipped by the file";
  EXPECT_FALSE(tokenizer.is_known(kTinyThinkLine + 1));
  EXPECT_TRUE(tokenizer.is_special(kTinyImEnd));
  EXPECT_FALSE(tokenizer.is_special(kTinyThink));
  EXPECT_FALSE(tokenizer.is_special(100000));
}

TEST(Tokenizer, IdsOutOfRangeAreErrors) {
  const Tokenizer tokenizer = tiny_tokenizer();
  for (const TokenId id : {-1, 268, 305, 2147483647}) {
    const std::vector<TokenId> ids = {'a', id};
    for (const auto special : {SpecialOutput::kSkip, SpecialOutput::kShow}) {
      const auto text = tokenizer.decode_text(ids, special);
      ASSERT_FALSE(text);
      EXPECT_EQ(text.error().code, ErrorCode::kTokenOutOfRange);
      EXPECT_EQ(text.error().expected, 305U);
    }
    EXPECT_FALSE(StreamDecoder(tokenizer, SpecialOutput::kShow).push(id));
  }
}

TEST(Tokenizer, SpecialTokensAreShownOrSkipped) {
  const Tokenizer tokenizer = tiny_tokenizer();
  const std::vector<TokenId> ids = {kTinyStart, 'a', kTinyThink, kTinyImEnd};
  EXPECT_EQ(tokenizer.decode_text(ids, SpecialOutput::kShow).value(),
            "<|startoftext|>a<think><|im_end|>");
  EXPECT_EQ(tokenizer.decode_text(ids, SpecialOutput::kSkip).value(), "a<think>");
}

TEST(Tokenizer, AddedTokenBeyondAsciiKeepsItsOwnText) {
  auto json = tiny_tokenizer_json();
  // In the alphabet of bytes U+00E9 would read as the byte E9 alone.
  json["added_tokens"].push_back({{"id", 305}, {"content", "<caf\u00E9 \u2603>"}});
  const Tokenizer tokenizer = parse_tokenizer(json).value();
  const std::vector<TokenId> ids = {305};
  EXPECT_EQ(tokenizer.decode_bytes(ids, SpecialOutput::kShow).value(), "<caf\u00E9 \u2603>");
  EXPECT_THAT(tokenizer.encode("<caf\u00E9 \u2603>", kParse).value(), ElementsAre(305));
}

TEST(Tokenizer, AMegabyteWithoutABlankIsEncoded) {
  const Tokenizer tokenizer = tiny_tokenizer();
  const std::string text(std::size_t{1} << 20, 'a');
  const auto ids = tokenizer.encode(text, kAsText).value();
  EXPECT_EQ(ids.size(), text.size() / 4) << "aaaa is the longest merge";
}

RC_GTEST_PROP(TokenizerProperty, DecodingGivesEveryByteStringBack, ()) {
  static const Tokenizer tokenizer = tiny_tokenizer();
  const std::string text = any_text();
  for (const EncodeOptions& options : {kAsText, kParse}) {
    const auto ids = tokenizer.encode(text, options).value();
    RC_ASSERT(tokenizer.decode_bytes(ids, SpecialOutput::kShow).value() == text);
  }
}

RC_GTEST_PROP(TokenizerProperty, TextNeverBecomesAnAddedToken, ()) {
  static const Tokenizer tokenizer = tiny_tokenizer();
  const auto ids = tokenizer.encode(any_text(), kAsText).value();
  RC_ASSERT(std::all_of(ids.begin(), ids.end(), [](TokenId id) { return id < kTinyStart; }));
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                     SpecialOutput special) {
  StreamDecoder decoder(tokenizer, special);
  std::string out;
  for (const TokenId id : ids) {
    const std::string piece = decoder.push(id).value();
    for (std::size_t at = 0; at < piece.size();) {
      const Char c = read_char(std::string_view(piece).substr(at));
      EXPECT_TRUE(c.well_formed) << "a piece ends within a character";
      at += c.n_bytes;
    }
    out += piece;
  }
  return out + decoder.flush();
}

RC_GTEST_PROP(TokenizerProperty, StreamedTextIsTheWholeText, ()) {
  static const Tokenizer tokenizer = tiny_tokenizer();
  const auto ids = *rc::gen::container<std::vector<TokenId>>(
      rc::gen::oneOf(rc::gen::inRange<TokenId>(0, 268), rc::gen::inRange<TokenId>(0x80, 0x100),
                     rc::gen::inRange<TokenId>(kTinyStart, kTinyThinkLine + 1)));
  for (const auto special : {SpecialOutput::kSkip, SpecialOutput::kShow}) {
    RC_ASSERT(streamed(tokenizer, ids, special) == tokenizer.decode_text(ids, special).value());
  }
}

TEST(StreamDecoder, ACharacterAppearsWithItsLastByte) {
  StreamDecoder decoder(tiny_tokenizer(), SpecialOutput::kShow);
  EXPECT_EQ(decoder.push(0xF0).value(), "");
  EXPECT_EQ(decoder.push(0x9F).value(), "");
  EXPECT_EQ(decoder.push(0x98).value(), "");
  EXPECT_EQ(decoder.push(0x80).value(), "\U0001F600");
  EXPECT_EQ(decoder.flush(), "");
}

TEST(StreamDecoder, ABrokenCharacterIsExactlyOneReplacement) {
  StreamDecoder decoder(tiny_tokenizer(), SpecialOutput::kShow);
  EXPECT_EQ(decoder.push(0xE2).value(), "");
  EXPECT_EQ(decoder.push(0x82).value(), "");
  EXPECT_EQ(decoder.push(260).value(), "\uFFFD w") << "a token that starts with a blank";
  EXPECT_EQ(decoder.push(0xC3).value(), "");
  EXPECT_EQ(decoder.flush(), "\uFFFD");
}

TEST(StreamDecoder, AFailedPushKeepsTheUnfinishedCharacter) {
  StreamDecoder decoder(tiny_tokenizer(), SpecialOutput::kShow);
  EXPECT_EQ(decoder.push(0xC3).value(), "");
  EXPECT_FALSE(decoder.push(9999));
  EXPECT_EQ(decoder.push(0xA9).value(), "\u00E9");
}

// Bug reports of other programs name these scripts: syllables lost, families of emoji cut.
TEST(StreamDecoder, TenThousandRandomTextsComeThroughByteByByte) {
  const Tokenizer tokenizer = tiny_tokenizer();
  Xoshiro256 random(7);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random.next() % n); };
  for (int i = 0; i < 10000; ++i) {
    std::string text;
    for (std::uint32_t n = 1 + below(12); n > 0; --n) {
      switch (below(5)) {
        case 0:
          append_utf8(0xAC00 + below(11172), text);
          break;  // Hangul
        case 1:
          append_utf8(0x5D0 + below(27), text);
          break;  // Hebrew
        case 2:
          append_utf8(0x1F466 + below(4), text);
          text += "\u200D";
          break;
        case 3:
          append_utf8(0x20 + below(0x5F), text);
          break;
        default:
          append_utf8(0x100 + below(0x80), text);
          break;
      }
    }
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    ASSERT_EQ(streamed(tokenizer, ids, SpecialOutput::kShow), text);
  }
}

}  // namespace
}  // namespace kvant::model
