// Chooses the next token from logits.
//
// Order of the steps, each optional: repetition penalty, temperature, top-k, top-p, min-p, draw.
// Temperature 0 is greedy: the largest logit, the lowest id among equals. Probabilities are
// binary64 from our own exp and are summed in a fixed order, so that the same seed gives the same
// tokens on every machine. Candidates leave a heap in order (logit descending, id ascending) only
// as far as the draw needs them, so the usual settings never sort a vocabulary.
//
// A NaN logit never wins and has probability 0; -infinity likewise.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvant/base/prng.h"
#include "kvant/base/result.h"
#include "kvant/base/units.h"

namespace kvant::engine {

struct SamplerOptions {
  double temperature = 0.0;          // 0: greedy
  std::int64_t top_k = 0;            // keep the k most likely; 0: all
  double top_p = 1.0;                // keep the smallest head whose probability reaches p; 1: all
  double min_p = 0.0;                // drop what is less likely than min_p times the most likely
  double repetition_penalty = 1.0;   // divides positive, multiplies negative logits of seen tokens
  std::int64_t penalty_window = 64;  // how many of the last tokens count as seen
  std::uint64_t seed = 0;
};

class Sampler {
 public:
  // `n_ids` is the number of ids that may be drawn: logits beyond it (rows that pad a vocabulary)
  // are never chosen.
  // Errors: kBadValue for a negative or NaN temperature, top_k < 0, top_p outside (0, 1],
  // min_p outside [0, 1], penalty <= 0, negative window; kOutOfMemory.
  static NamedResult<Sampler> create(const SamplerOptions& options, std::int64_t n_ids);

  // Bytes that a sampler of n_ids takes from the heap.
  static Bytes bytes(std::int64_t n_ids);

  // Shapes: logits [>= n_ids]; history: the tokens so far, oldest first.
  // Errors: kNoLogits when no logit is a number above -infinity.
  // Cost: O(n_ids log n_ids) at most; allocates nothing.
  Result<TokenId> sample(std::span<const float> logits, std::span<const TokenId> history);

  // Back to the start of the seed's stream.
  void reset() { random_ = Xoshiro256(options_.seed); }

 private:
  struct Candidate {
    double logit;   // after the repetition penalty
    double weight;  // exp((logit - largest logit) / temperature)
    TokenId id;
  };

  Sampler(const SamplerOptions& options, std::int64_t n_ids)
      : options_(options), n_ids_(n_ids), random_(options.seed) {}

  double penalised(float logit, TokenId id) const;
  void mark_seen(std::span<const TokenId> history, std::uint8_t mark);
  Result<TokenId> greedy(std::span<const float> logits) const;
  double collect(std::span<const float> logits);
  double keep_top_k();
  double take_until(double enough);
  TokenId draw(double total);
  static bool less_likely(const Candidate& a, const Candidate& b);

  SamplerOptions options_;
  std::int64_t n_ids_;
  Xoshiro256 random_;
  std::vector<Candidate> heap_;     // room for n_ids
  std::vector<Candidate> ordered_;  // what has left the heap, most likely first
  std::vector<std::uint8_t> seen_;  // [n_ids] 1: the repetition penalty applies
};

// The index of the largest value, the lowest among equals; NaN never wins. -1 if there is none.
std::int64_t argmax(std::span<const float> values);

}  // namespace kvant::engine
