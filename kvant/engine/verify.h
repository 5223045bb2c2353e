// Compares a model with its golden file by every route to a position, and the routes with one
// another bit for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvant/codec/kind.h"
#include "kvant/engine/golden.h"
#include "kvant/engine/runner.h"
#include "kvant/model/loader.h"

namespace kvant::engine {

// Ways to evaluate the same tokens.
enum class Route : std::uint8_t {
  kOneshot,   // one prefill
  kChunks,    // prefills of 3, 7, 64, 127, 128, 129 and 512 tokens
  kDecode,    // token by token
  kBatch,     // beside two other sequences in one batch, in chunks
  kSnapshot,  // snapshot, run on, restore, run again, at positions around page borders
};

struct VerifyOptions {
  codec::Kind keys = codec::Kind::kF32;
  codec::Kind values = codec::Kind::kF32;
  std::vector<Route> routes = {Route::kOneshot, Route::kChunks, Route::kDecode, Route::kBatch,
                               Route::kSnapshot};
};

struct RouteReport {
  std::string name;               // "chunks of 127"
  double max_logit_error = 0.0;   // largest |difference| to the golden logits, greedy ones included
  double max_hidden_error = 0.0;  // relative to 1 + the largest hidden value of the layer
  double max_nll_error = 0.0;
  std::int64_t argmax_misses = 0;  // where the golden top-2 margin exceeds the tolerance
  std::int64_t greedy_misses = 0;
  std::int64_t first_other_bit = -1;  // first position whose logits differ from the first route's
};

struct VerifyReport {
  // 2e-4 * (1 + largest |logit| / 10) for f32 rows; f16 and bf16 rows round, so 16 and 256 times.
  double logit_tolerance = 0.0;
  std::vector<RouteReport> routes;

  // Every route within tolerance and bit-identical to the first.
  bool passed() const;
};

// Errors: kPromptTooLong for a golden file longer than the model's context; kShapeMismatch,
// kTokenOutOfRange for one of another model; kBadValue for one with a NaN or an infinity; those of
// Runner::step; kOutOfMemory.
NamedResult<VerifyReport> verify(const Golden& golden,
                                 const std::shared_ptr<const model::LoadedModel>& model,
                                 const Machine& machine, const VerifyOptions& options);

}  // namespace kvant::engine
