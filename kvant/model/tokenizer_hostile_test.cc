// Tokenizer files that are wrong, each refused by the key that is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kvant/model/tokenizer.h"
#include "tests/support/tiny_tokenizer.h"

namespace kvant::model {
namespace {

using nlohmann::json;
using test::parse_tokenizer;
using test::tiny_tokenizer_json;
using ::testing::HasSubstr;

struct Wrong {
  const char* what;
  std::function<void(json&)> edit;
  ErrorCode code;
  const char* named;
};

void expect_refused(const Wrong& wrong) {
  SCOPED_TRACE(wrong.what);
  json file = tiny_tokenizer_json();
  wrong.edit(file);
  const auto tokenizer = parse_tokenizer(file);
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(name_of(tokenizer.error().code()), name_of(wrong.code));
  EXPECT_THAT(describe(tokenizer.error()), HasSubstr(wrong.named));
  EXPECT_THAT(describe(tokenizer.error()), HasSubstr("tokenizer.json"));
}

constexpr auto kBad = ErrorCode::kBadValue;
constexpr auto kTwice = ErrorCode::kDuplicateName;
constexpr auto kMissing = ErrorCode::kMissingKey;
constexpr auto kUnsupported = ErrorCode::kUnsupported;

json added(const json& id, const json& content) {
  return {{"id", id}, {"content", content}, {"special", true}};
}

TEST(TokenizerHostile, BadIdsAreRefused) {
  const std::vector<Wrong> cases = {
      {"negative", [](json& f) { f["model"]["vocab"]["zz"] = -1; }, kBad,
       "vocab: 'zz' is -1, allowed is 0 to 319"},
      {"fraction", [](json& f) { f["model"]["vocab"]["zz"] = 1.5; }, kBad, "'zz'"},
      {"text", [](json& f) { f["model"]["vocab"]["zz"] = "1"; }, kBad, "'zz' is '1'"},
      {"vocabulary size", [](json& f) { f["model"]["vocab"]["zz"] = 320; },
       ErrorCode::kTokenOutOfRange, "'zz': token id 320 is outside the vocabulary of 320"},
      {"2^32", [](json& f) { f["model"]["vocab"]["zz"] = 4294967296; }, ErrorCode::kTokenOutOfRange,
       "4294967296"},
      {"2^64-1", [](json& f) { f["model"]["vocab"]["zz"] = 18446744073709551615ULL; }, kBad,
       "18446744073709551615"},
      {"same id twice", [](json& f) { f["model"]["vocab"]["zz"] = 97; }, kTwice, "id 97"},
      {"added negative", [](json& f) { f["added_tokens"].push_back(added(-5, "x")); }, kBad,
       "added_tokens: id is -5"},
      {"added beyond the vocabulary",
       [](json& f) { f["added_tokens"].push_back(added(320, "x!")); }, ErrorCode::kTokenOutOfRange,
       "added_tokens: id"},
      {"added on a used id", [](json& f) { f["added_tokens"].push_back(added(97, "new")); }, kTwice,
       "id 97"},
      {"added with another id than in the vocabulary",
       [](json& f) { f["added_tokens"].push_back(added(310, "hello")); }, kTwice, "'hello'"},
      {"added twice", [](json& f) { f["added_tokens"].push_back(added(300, "<|startoftext|>")); },
       kTwice, "startoftext"},
      {"added text twice", [](json& f) { f["added_tokens"].push_back(added(310, "<think>")); },
       kTwice, "'<think>'"},
      {"added without id", [](json& f) { f["added_tokens"].push_back({{"content", "x"}}); },
       kMissing, "id"},
      {"added without text", [](json& f) { f["added_tokens"].push_back({{"id", 310}}); }, kMissing,
       "content"},
      {"added empty", [](json& f) { f["added_tokens"].push_back(added(310, "")); }, kBad,
       "content is ''"},
      {"added huge",
       [](json& f) { f["added_tokens"].push_back(added(310, std::string(5000, 'x'))); }, kBad,
       "1 to 1024 bytes"},
      {"added_tokens no list", [](json& f) { f["added_tokens"] = 3; }, kBad, "added_tokens is 3"},
  };
  for (const Wrong& wrong : cases) expect_refused(wrong);
}

TEST(TokenizerHostile, BadVocabulariesAreRefused) {
  const std::vector<Wrong> cases = {
      {"missing", [](json& f) { f["model"].erase("vocab"); }, kMissing, "vocab"},
      {"list", [](json& f) { f["model"]["vocab"] = json::array(); }, kBad, "vocab"},
      {"a byte is missing", [](json& f) { f["model"]["vocab"].erase("\u0120"); }, kMissing,
       "byte 0x20"},
      {"a byte is special", [](json& f) { f["added_tokens"].push_back(added(97, "a")); }, kMissing,
       "byte 0x61"},
      {"empty", [](json& f) { f["model"]["vocab"] = json::object(); }, kMissing, "byte 0x00"},
  };
  for (const Wrong& wrong : cases) expect_refused(wrong);
}

TEST(TokenizerHostile, BadMergesAreRefused) {
  const auto merge = [](const json& value) {
    return [value](json& f) { f["model"]["merges"].push_back(value); };
  };
  const std::vector<Wrong> cases = {
      {"missing", [](json& f) { f["model"].erase("merges"); }, kMissing, "merges"},
      {"no list", [](json& f) { f["model"]["merges"] = "a b"; }, kBad, "merges"},
      {"unknown left", merge({"zzz", "a"}), kBad, "entry 12: 'zzz' is not in the vocabulary"},
      {"unknown right", merge({"a", "zzz"}), kBad, "'zzz'"},
      {"unknown result", merge({"z", "z"}), kBad, "'zz'"},
      {"without a blank", merge("ab"), kBad, "entry 12 is 'ab'"},
      {"two blanks", merge("a  b"), kBad, "'a  b'"},
      {"empty side", merge(" a"), kBad, "''"},
      {"one side", merge(json::array({"a"})), kBad, "an array of 1"},
      {"three sides", merge({"a", "a", "a"}), kBad, "an array of 3"},
      {"numbers", merge({1, 2}), kBad, "entry 12"},
      {"number", merge(7), kBad, "entry 12 is 7"},
      {"twice", merge({"a", "a"}), kTwice, "entry 12"},
      {"special result",
       [](json& f) {
         f["model"]["vocab"]["xy"] = 310;
         f["added_tokens"].push_back(added(310, "xy"));
         f["model"]["merges"].push_back({"x", "y"});
       },
       kBad, "makes a special token"},
  };
  for (const Wrong& wrong : cases) expect_refused(wrong);
}

TEST(TokenizerHostile, WhatThisProgramDoesNotDoIsRefusedByName) {
  const auto pre = [](const json& value) {
    return [value](json& f) { f["pre_tokenizer"] = value; };
  };
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const auto split = [](const char* regex, const char* behavior, bool invert) {
    return json{{"type", "Split"},
                {"pattern", {{"Regex", regex}}},
                {"behavior", behavior},
                {"invert", invert}};
  };
  const std::string regex(test::kLlama3Regex);
  const auto sequence = [](const json& steps) {
    return json{{"type", "Sequence"}, {"pretokenizers", steps}};
  };
  const std::vector<Wrong> cases = {
      {"normalizer", [](json& f) { f["normalizer"] = {{"type", "NFC"}}; }, kUnsupported,
       "normalizer: type is 'NFC'"},
      {"decoder", [](json& f) { f["decoder"] = {{"type", "Metaspace"}}; }, kUnsupported,
       "'Metaspace'"},
      {"model", [](json& f) { f["model"]["type"] = "Unigram"; }, kUnsupported, "'Unigram'"},
      {"dropout", [](json& f) { f["model"]["dropout"] = 0.1; }, kUnsupported, "dropout"},
      {"byte_fallback", [](json& f) { f["model"]["byte_fallback"] = true; }, kUnsupported,
       "byte_fallback is true"},
      {"prefix", [](json& f) { f["model"]["continuing_subword_prefix"] = "##"; }, kUnsupported,
       "'##'"},
      {"lstrip", [](json& f) { f["added_tokens"][0]["lstrip"] = true; }, kUnsupported, "lstrip"},
      {"no pre-tokenizer", pre(nullptr), kMissing, "pre_tokenizer"},
      {"other pre-tokenizer", pre({{"type", "Whitespace"}}), kUnsupported, "'Whitespace'"},
      {"other pattern", pre(sequence({split("\\s+", "Isolated", false), bytes})), kUnsupported,
       "'\\s+'"},
      {"other behavior", pre(sequence({split(regex.c_str(), "Removed", false), bytes})),
       kUnsupported, "'Removed'"},
      {"inverted", pre(sequence({split(regex.c_str(), "Isolated", true), bytes})), kUnsupported,
       "invert"},
      {"no byte level", pre(sequence(json::array({split(regex.c_str(), "Isolated", false)}))),
       kUnsupported, "ByteLevel is missing"},
      {"no split", pre(bytes), kUnsupported, "Split is missing"},
      {"step after byte level", pre(sequence({bytes, split(regex.c_str(), "Isolated", false)})),
       kUnsupported, "after ByteLevel"},
      {"prefix space", pre({{"type", "ByteLevel"}, {"add_prefix_space", true}}), kUnsupported,
       "add_prefix_space"},
      {"post-processor", [](json& f) { f["post_processor"] = {{"type", "BertProcessing"}}; },
       kUnsupported, "'BertProcessing'"},
      {"token after the text",
       [](json& f) {
         f["post_processor"] = {
             {"type", "TemplateProcessing"},
             {"single",
              {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "<|im_end|>"}}}}}}};
       },
       kUnsupported, "one after the text"},
      {"unknown token before the text",
       [](json& f) {
         f["post_processor"] = {
             {"type", "TemplateProcessing"},
             {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}}};
       },
       kBad, "'<s>' is not an added token"},
  };
  for (const Wrong& wrong : cases) expect_refused(wrong);
}

TEST(TokenizerHostile, Gpt2AndQwen2PatternsAreRead) {
  json file = tiny_tokenizer_json();
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  EXPECT_TRUE(parse_tokenizer(file));
  file = tiny_tokenizer_json();
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = std::string(test::kQwen2Regex);
  EXPECT_TRUE(parse_tokenizer(file));
}

TEST(TokenizerHostile, BadTokenizerConfigsAreRefused) {
  const auto text_of = [](const json& config) {
    const auto tokenizer = parse_tokenizer(tiny_tokenizer_json(), config);
    return tokenizer ? std::string("accepted") : describe(tokenizer.error());
  };
  EXPECT_THAT(text_of({{"bos_token", "<s>"}}),
              HasSubstr("tokenizer_config.json: bos_token is '<s>'"));
  EXPECT_THAT(text_of({{"eos_token", 7}}), HasSubstr("eos_token"));
  EXPECT_THAT(text_of({{"add_bos_token", "yes"}}), HasSubstr("add_bos_token"));
  EXPECT_THAT(text_of({{"chat_template", 5}}), HasSubstr("chat_template"));
  EXPECT_EQ(text_of({{"chat_template", {{{"name", "default"}, {"template", "x"}}}}}), "accepted");
}

TEST(TokenizerHostile, FilesThatAreNoTokenizerAreRefused) {
  const auto code_of = [](std::string_view text, std::int64_t vocab_size) {
    const auto tokenizer =
        Tokenizer::parse({.name = "tokenizer.json", .text = text}, {}, vocab_size);
    return tokenizer ? std::string_view("accepted") : name_of(tokenizer.error().code());
  };
  EXPECT_EQ(code_of("", 300), "bad_json");
  EXPECT_EQ(code_of("[]", 300), "bad_value");
  EXPECT_EQ(code_of("{}", 300), "missing_key");
  EXPECT_EQ(code_of(std::string(1000000, '['), 300), "bad_json");
  EXPECT_EQ(code_of(R"({"model":{},"model":{}})", 300), "duplicate_name");
  EXPECT_EQ(code_of("{}", 0), "invalid_argument");
  EXPECT_EQ(code_of("{}", -1), "invalid_argument");
  EXPECT_EQ(code_of("{}", std::int64_t{1} << 40), "invalid_argument");
}

// A few bytes must not reserve a table of millions of ids.
TEST(TokenizerHostile, IdsFarBeyondTheNumberOfTokensAreRefused) {
  json file = tiny_tokenizer_json();
  file["model"]["vocab"]["zz"] = 16000000;
  const std::string text = file.dump();
  const auto tokenizer =
      Tokenizer::parse({.name = "tokenizer.json", .text = text}, {}, std::int64_t{1} << 24);
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code(), ErrorCode::kLimitExceeded);
}

TEST(TokenizerHostile, DirectoryWithoutTokenizerIsNamed) {
  const auto tokenizer = Tokenizer::open("/nowhere", 10);
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code(), ErrorCode::kMissingFile);
  EXPECT_THAT(tokenizer.error().detail(), HasSubstr("/nowhere/tokenizer.json"));
}

}  // namespace
}  // namespace kvant::model
