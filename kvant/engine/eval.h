// Quality of a model on text: perplexity, and recall of facts at a distance.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/engine/memory_plan.h"
#include "kvant/engine/runner.h"
#include "kvant/model/loader.h"
#include "kvant/model/tokenizer.h"

namespace kvant::engine {

// What an evaluation runs on.
struct EvalSetup {
  std::shared_ptr<const model::LoadedModel> model;
  const model::Tokenizer* tokenizer = nullptr;
  Machine machine;
  codec::Kind keys = codec::Kind::kF32;
  codec::Kind values = codec::Kind::kF32;
  // Called now and then: items done, items in all.
  std::function<void(std::int64_t done, std::int64_t all)> progress = {};
};

struct RecallCase {
  std::string prompt;  // special tokens spelled out
  std::string answer;
  std::int64_t people = 0;  // size of the cast: how far away facts are
};

// One JSON object a line. Errors: kBadJson, kMissingKey with the line number; those of
// read_text_file.
NamedResult<std::vector<RecallCase>> read_recall(const std::string& path);

struct RecallGroup {
  std::int64_t n_cases = 0;
  std::int64_t n_exact = 0;        // every token of the answer and <|im_end|> is the argmax
  std::int64_t prompt_tokens = 0;  // of all cases
  std::int64_t answer_tokens = 0;
  double nll_sum = 0.0;  // of the answers' tokens
};

// By size of cast. Errors: kEmptyPrompt, kPromptTooLong, those of Runner::step; kMissingKey for a
// tokenizer without <|im_end|>.
NamedResult<std::map<std::int64_t, RecallGroup>> eval_recall(const EvalSetup& setup,
                                                             const std::vector<RecallCase>& cases);

struct TextReport {
  std::int64_t n_tokens = 0;  // predicted ones
  std::int64_t n_windows = 0;
  double mean_nll = 0.0;
  double perplexity = 0.0;
  double perplexity_error = 0.0;  // standard error
};

// Perplexity of a text in windows of `window` tokens, each from an empty state and without its
// first token's probability.
// Errors: kEmptyPrompt for a text of less than two tokens; kInvalidArgument for a window below 2;
// those of Runner::step.
NamedResult<TextReport> eval_text(const EvalSetup& setup, std::string_view text, Tokens window);

}  // namespace kvant::engine
