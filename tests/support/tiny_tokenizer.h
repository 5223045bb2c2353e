// A small tokenizer.json to test with: the 256 bytes (id = byte), some merges, some added tokens.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "kvant/base/units.h"
#include "kvant/model/byte_alphabet.h"
#include "kvant/model/tokenizer.h"
#include "tests/support/split_oracle.h"

namespace kvant::test {

inline std::string in_alphabet(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += model::byte_symbol(static_cast<std::uint8_t>(c));
  return out;
}

inline constexpr TokenId kTinyStart = 300;      // <|startoftext|>, special
inline constexpr TokenId kTinyImStart = 301;    // <|im_start|>, special
inline constexpr TokenId kTinyImEnd = 302;      // <|im_end|>, special
inline constexpr TokenId kTinyThink = 303;      // <think>, added but not special
inline constexpr TokenId kTinyThinkLine = 304;  // <think> and a line end, longer than the one above
inline constexpr std::int64_t kTinyVocabSize = 320;

// Merges in order of rank; each makes the next id from 256 on.
inline nlohmann::json tiny_tokenizer_json() {
  using nlohmann::json;
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[model::byte_symbol(static_cast<std::uint8_t>(byte))] = byte;
  }
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"h", "e"},   {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {" ", "w"},       {"o", "r"},
      {" w", "or"}, {"a", "a"}, {"aa", "aa"}, {"\n", "\n"},  {"\xC3", "\xA9"}, {"'", "s"}};
  json merges = json::array();
  int next_id = 256;
  for (const auto& [left, right] : pairs) {
    merges.push_back({in_alphabet(left), in_alphabet(right)});
    vocab[in_alphabet(left + right)] = next_id++;
  }
  json added = json::array();
  const auto add = [&](TokenId id, const char* text, bool special) {
    added.push_back({{"id", id}, {"content", text}, {"special", special}, {"lstrip", false}});
  };
  add(kTinyStart, "<|startoftext|>", true);
  add(kTinyImStart, "<|im_start|>", true);
  add(kTinyImEnd, "<|im_end|>", true);
  add(kTinyThink, "<think>", false);
  add(kTinyThinkLine, "<think>\n", false);
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", std::string(kLlama3Regex)}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
}

inline NamedResult<model::Tokenizer> parse_tokenizer(const nlohmann::json& json,
                                                     const nlohmann::json& config = nullptr) {
  const std::string text = json.dump();
  const std::string config_text = config.is_null() ? std::string() : config.dump();
  return model::Tokenizer::parse({.name = "tokenizer.json", .text = text},
                                 {.name = "tokenizer_config.json", .text = config_text},
                                 kTinyVocabSize);
}

inline model::Tokenizer tiny_tokenizer() { return parse_tokenizer(tiny_tokenizer_json()).value(); }

}  // namespace kvant::test
