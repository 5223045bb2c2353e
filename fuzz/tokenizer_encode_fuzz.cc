// Any text comes back from its ids, and is split as PCRE2 splits it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/model/pretokenizer.h"
#include "kvant/model/tokenizer.h"
#include "tests/support/split_oracle.h"
#include "tests/support/tiny_tokenizer.h"

namespace {

using namespace kvant::model;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_split(SplitPattern pattern, const kvant::test::SplitOracle& oracle,
                 std::string_view text) {
  std::vector<std::size_t> ends;
  for (std::size_t at = 0; at < text.size();) {
    at = word_end(pattern, text, at);
    ends.push_back(at);
  }
  require(ends == oracle.ends(text));
}

void check_round_trip(const Tokenizer& tokenizer, std::string_view text, SpecialTokens special) {
  const auto ids = tokenizer.encode(text, {.special = special}).value();
  require(tokenizer.decode_bytes(ids, SpecialOutput::kShow).value() == text);
  StreamDecoder decoder(tokenizer, SpecialOutput::kSkip);
  std::string streamed;
  for (const kvant::TokenId id : ids) {
    require(special == SpecialTokens::kParse || !tokenizer.is_special(id));
    streamed += decoder.push(id).value();
  }
  streamed += decoder.flush();
  require(streamed == tokenizer.decode_text(ids, SpecialOutput::kSkip).value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tokenizer tokenizer = kvant::test::tiny_tokenizer();
  static const kvant::test::SplitOracle llama3(kvant::test::kLlama3Regex);
  static const kvant::test::SplitOracle qwen2(kvant::test::kQwen2Regex);
  static const kvant::test::SplitOracle gpt2(kvant::test::kGpt2Regex);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_round_trip(tokenizer, text, SpecialTokens::kAsText);
  check_round_trip(tokenizer, text, SpecialTokens::kParse);
  if (!llama3.judges(text)) return 0;
  check_split(SplitPattern::kLlama3, llama3, text);
  check_split(SplitPattern::kQwen2, qwen2, text);
  check_split(SplitPattern::kGpt2, gpt2, text);
  return 0;
}
