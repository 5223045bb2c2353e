// Golden files: what an independent implementation computed for a model and some tokens, in
// binary32 (docs/formats/golden.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"

namespace kvant::engine {

// A matrix of binary32 numbers, rows contiguous.
struct FloatRows {
  std::int64_t n_rows = 0;
  std::int64_t width = 0;
  std::vector<float> values;  // [n_rows, width]

  std::span<const float> row(std::size_t i) const {
    return std::span(values).subspan(i * static_cast<std::size_t>(width),
                                     static_cast<std::size_t>(width));
  }
};

struct Golden {
  std::vector<TokenId> tokens;   // [n]
  std::vector<TokenId> argmax;   // [n]
  std::vector<float> logsumexp;  // [n]
  std::vector<float> nll;        // [n - 1] of tokens 1 ... n - 1
  std::vector<std::int64_t> logit_positions;
  FloatRows logits;  // [logit_positions, vocab_size]
  std::vector<std::int64_t> hidden_positions;
  std::vector<FloatRows> hidden;  // [n_layers + 1][hidden_positions, hidden_size]
  std::vector<TokenId> greedy;    // continues tokens
  FloatRows greedy_logits;        // [up to 16, vocab_size]
};

// Reads `golden.safetensors`, or that file in the directory `path`.
// Errors: those of SafetensorsFile::open; kMissingTensor, kShapeMismatch, kBadValue, kUnknownDtype
// for a file that does not hold together.
NamedResult<Golden> read_golden(const std::string& path);

}  // namespace kvant::engine
