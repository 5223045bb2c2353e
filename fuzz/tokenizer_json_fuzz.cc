// Any tokenizer.json is either refused or makes a tokenizer that gives every text back.
//
// Input: a tokenizer.json; after the last byte 0, if there is one, a tokenizer_config.json.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kvant/model/chat.h"
#include "kvant/model/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvant::model;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string_view config;
  if (const std::size_t end = text.rfind('\0'); end != std::string_view::npos) {
    config = text.substr(end + 1);
    text = text.substr(0, end);
  }
  constexpr std::int64_t kVocabSize = 1 << 16;
  const auto tokenizer =
      Tokenizer::parse({.name = "tokenizer.json", .text = text},
                       {.name = "tokenizer_config.json", .text = config}, kVocabSize);
  if (!tokenizer) {
    if (describe(tokenizer.error()).empty()) std::abort();
    return 0;
  }
  constexpr std::string_view kSample = "<|im_start|>user\nHello, it's 12345 \xC3\xA9\xFF<|im_end|>";
  for (const auto special : {SpecialTokens::kAsText, SpecialTokens::kParse}) {
    const auto ids = tokenizer->encode(kSample, {.special = special});
    const auto bytes = tokenizer->decode_bytes(*ids, SpecialOutput::kShow);
    if (*bytes != kSample) std::abort();
  }
  static_cast<void>(ChatFormat::detect(*tokenizer));
  return 0;
}
