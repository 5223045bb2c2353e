// The bundled tokenizer against token ids that an independent implementation made.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kvant/model/chat.h"
#include "kvant/model/config.h"
#include "kvant/model/safetensors.h"
#include "kvant/model/tokenizer.h"

namespace kvant::model {
namespace {

const std::string kRoot = KVANT_SOURCE_DIR;
constexpr EncodeOptions kParsed{.special = SpecialTokens::kParse};

Tokenizer bundled_tokenizer() {
  const std::string directory = kRoot + "/models/tinyworld-lfm2";
  return Tokenizer::open(directory, read_config(directory)->vocab_size).value();
}

struct Golden {
  std::string text;
  std::vector<TokenId> tokens;
};

Golden read_golden() {
  const auto file =
      SafetensorsFile::open(kRoot + "/tests/golden/tinyworld-lfm2/golden.safetensors").value();
  Golden golden;
  golden.text = file.metadata().at("text");
  const TensorInfo* tokens = file.find("tokens");
  golden.tokens.resize(tokens->n_elements().size());
  std::memcpy(golden.tokens.data(), tokens->data.data(), tokens->data.size());
  return golden;
}

// "<|im_start|>role\ncontent<|im_end|>\n" ... back to messages, by plain string search.
std::vector<ChatMessage> messages_of(std::string_view text) {
  constexpr std::string_view kStart = "<|im_start|>";
  constexpr std::string_view kEnd = "<|im_end|>\n";
  std::vector<ChatMessage> messages;
  for (std::size_t at = text.find(kStart); at != std::string_view::npos;) {
    const std::size_t role = at + kStart.size();
    const std::size_t line = text.find('\n', role);
    const std::size_t end = text.find(kEnd, line);
    if (end == std::string_view::npos) break;
    messages.push_back({.role = std::string(text.substr(role, line - role)),
                        .content = std::string(text.substr(line + 1, end - line - 1))});
    at = text.find(kStart, end);
  }
  return messages;
}

TEST(TokenizerGolden, EncodesTheReferenceTextToTheReferenceIds) {
  const Golden golden = read_golden();
  ASSERT_EQ(golden.tokens.size(), 1194U);
  EXPECT_EQ(bundled_tokenizer().encode(golden.text, kParsed).value(), golden.tokens);
}

TEST(TokenizerGolden, ChatFormatGivesTheReferenceIdsFromMessages) {
  const Golden golden = read_golden();
  const std::vector<ChatMessage> messages = messages_of(golden.text);
  ASSERT_GT(messages.size(), 10U);
  const ChatFormat format = ChatFormat::detect(bundled_tokenizer()).value();
  EXPECT_EQ(format.template_match(), TemplateMatch::kExact);
  EXPECT_EQ(format.note(), "");
  EXPECT_EQ(format.render(messages, GenerationPrompt::kAdd).value(), golden.tokens);
}

TEST(TokenizerGolden, PromptFileIsTheReferenceText) {
  std::ifstream in(kRoot + "/tests/golden/tinyworld-lfm2/prompt.txt", std::ios::binary);
  const std::string prompt{std::istreambuf_iterator<char>(in), {}};
  ASSERT_FALSE(prompt.empty());
  const Tokenizer tokenizer = bundled_tokenizer();
  const auto ids = tokenizer.encode(prompt, kParsed).value();
  EXPECT_EQ(tokenizer.decode_bytes(ids, SpecialOutput::kShow).value(), prompt);
}

TEST(TokenizerGolden, EveryRecallPromptRoundTrips) {
  const Tokenizer tokenizer = bundled_tokenizer();
  std::ifstream in(kRoot + "/tests/golden/recall.jsonl");
  std::size_t n_prompts = 0;
  for (std::string line; std::getline(in, line);) {
    const auto object = nlohmann::json::parse(line);
    const std::string prompt = object.at("prompt");
    const auto ids = tokenizer.encode(prompt, kParsed).value();
    EXPECT_EQ(ids.front(), tokenizer.bos_id());
    ASSERT_EQ(tokenizer.decode_bytes(ids, SpecialOutput::kShow).value(), prompt);
    ++n_prompts;
  }
  EXPECT_EQ(n_prompts, 96U);
}

TEST(TokenizerGolden, KnowsItsSpecialTokensAndItsPadding) {
  const Tokenizer tokenizer = bundled_tokenizer();
  EXPECT_EQ(tokenizer.n_ids(), 1262);
  EXPECT_EQ(tokenizer.n_tokens(), 1262);
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 7);
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.find_added("<|im_start|>"), 6);
  EXPECT_TRUE(tokenizer.is_special(6));
  EXPECT_FALSE(tokenizer.is_special(8));
  EXPECT_TRUE(tokenizer.is_known(1261));
  EXPECT_FALSE(tokenizer.is_known(1262)) << "a row that only pads the embedding";
  EXPECT_FALSE(tokenizer.is_known(-1));
}

}  // namespace
}  // namespace kvant::model
