#include "kvant/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "kvant/kernels/math.h"

namespace kvant::engine {
namespace {

NamedError bad_option(const char* name, const char* allowed) {
  return {Error{.code = ErrorCode::kBadValue}, std::string(name) + " must be " + allowed};
}

NamedStatus check(const SamplerOptions& options) {
  if (!(options.temperature >= 0.0) || std::isinf(options.temperature)) {
    return bad_option("temperature", "a number from 0");
  }
  if (options.top_k < 0) return bad_option("top-k", "0 (all) or more");
  if (!(options.top_p > 0.0 && options.top_p <= 1.0)) return bad_option("top-p", "in (0, 1]");
  if (!(options.min_p >= 0.0 && options.min_p <= 1.0)) return bad_option("min-p", "in [0, 1]");
  if (!(options.repetition_penalty > 0.0) || std::isinf(options.repetition_penalty)) {
    return bad_option("repetition penalty", "above 0 (1: none)");
  }
  if (options.penalty_window < 0) return bad_option("penalty window", "0 or more");
  return {};
}

}  // namespace

std::int64_t argmax(std::span<const float> values) {
  std::int64_t best = -1;
  float best_value = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] > best_value) {
      best = static_cast<std::int64_t>(i);
      best_value = values[i];
    }
  }
  return best;
}

NamedResult<Sampler> Sampler::create(const SamplerOptions& options, std::int64_t n_ids) {
  KVANT_TRY(check(options));
  Sampler sampler(options, n_ids);
  const auto n = static_cast<std::size_t>(n_ids);
  try {
    sampler.heap_.reserve(n);
    sampler.ordered_.reserve(n);
    sampler.seen_.assign(n, 0);
  } catch (const std::bad_alloc&) {
    return NamedError(Error{.code = ErrorCode::kOutOfMemory, .actual = bytes(n_ids).size()},
                      "sampler");
  }
  return sampler;
}

Bytes Sampler::bytes(std::int64_t n_ids) {
  return Bytes(n_ids * static_cast<std::int64_t>(2 * sizeof(Candidate) + sizeof(std::uint8_t)));
}

double Sampler::penalised(float logit, TokenId id) const {
  const auto value = static_cast<double>(logit);
  if (seen_[static_cast<std::size_t>(id)] == 0) return value;
  return value > 0.0 ? value / options_.repetition_penalty : value * options_.repetition_penalty;
}

void Sampler::mark_seen(std::span<const TokenId> history, std::uint8_t mark) {
  if (options_.repetition_penalty == 1.0) return;
  const auto window = std::min(history.size(), static_cast<std::size_t>(options_.penalty_window));
  for (const TokenId id : history.last(window)) {
    if (id >= 0 && id < n_ids_) seen_[static_cast<std::size_t>(id)] = mark;
  }
}

Result<TokenId> Sampler::greedy(std::span<const float> logits) const {
  TokenId best = -1;
  double best_logit = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const double logit = penalised(logits[i], id);
    if (logit > best_logit) {
      best = id;
      best_logit = logit;
    }
  }
  if (best < 0) return Error{.code = ErrorCode::kNoLogits};
  return best;
}

// Fills the heap's room with the candidates, in id order; returns the sum of their weights.
double Sampler::collect(std::span<const float> logits) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  heap_.clear();
  double largest = kNone;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const double logit = penalised(logits[i], id);
    if (!(logit > kNone)) continue;  // NaN too
    largest = std::max(largest, logit);
    heap_.push_back({.logit = logit, .weight = 0.0, .id = id});
  }
  double total = 0.0;
  for (Candidate& candidate : heap_) {
    // Infinite logits share the whole probability; inf - inf would be NaN.
    // Divided last: a logit over a tiny temperature would be infinite itself.
    candidate.weight = candidate.logit == largest
                           ? 1.0
                           : kernels::exp64((candidate.logit - largest) / options_.temperature);
    total += candidate.weight;
  }
  return total;
}

bool Sampler::less_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit < b.logit : a.id > b.id;
}

// Leaves the k most likely candidates in the heap's room; returns the sum of their weights.
double Sampler::keep_top_k() {
  const auto k = static_cast<std::ptrdiff_t>(options_.top_k);
  const auto more_likely = [](const Candidate& a, const Candidate& b) { return less_likely(b, a); };
  std::nth_element(heap_.begin(), heap_.begin() + (k - 1), heap_.end(), more_likely);
  heap_.resize(static_cast<std::size_t>(k));
  std::sort(heap_.begin(), heap_.end(), more_likely);
  double total = 0.0;
  for (const Candidate& candidate : heap_) total += candidate.weight;
  return total;
}

// Takes candidates off the heap, most likely first, until their weight reaches `enough` or min-p
// says stop; returns the weight of what is then in ordered_.
double Sampler::take_until(double enough) {
  ordered_.clear();
  double taken = 0.0;
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), less_likely);
    const Candidate candidate = heap_.back();
    heap_.pop_back();
    if (!ordered_.empty() && candidate.weight < options_.min_p * ordered_.front().weight) break;
    ordered_.push_back(candidate);
    taken += candidate.weight;
    if (taken >= enough) break;
  }
  return taken;
}

TokenId Sampler::draw(double total) {
  const double u = random_.next_double();
  if (options_.top_p >= 1.0 && options_.min_p == 0.0) {
    take_until(u * total);
    return ordered_.back().id;
  }
  const double target = u * take_until(options_.top_p * total);
  double sum = 0.0;
  for (const Candidate& candidate : ordered_) {
    sum += candidate.weight;
    if (sum >= target) return candidate.id;
  }
  return ordered_.back().id;
}

Result<TokenId> Sampler::sample(std::span<const float> logits, std::span<const TokenId> history) {
  logits = logits.first(std::min(logits.size(), static_cast<std::size_t>(n_ids_)));
  mark_seen(history, 1);
  Result<TokenId> chosen = Error{.code = ErrorCode::kNoLogits};
  if (options_.temperature == 0.0 || options_.top_k == 1) {
    chosen = greedy(logits);
  } else if (double total = collect(logits); !heap_.empty()) {
    if (options_.top_k > 0 && options_.top_k < static_cast<std::int64_t>(heap_.size())) {
      total = keep_top_k();
    }
    std::make_heap(heap_.begin(), heap_.end(), less_likely);
    chosen = draw(total);
  }
  mark_seen(history, 0);
  return chosen;
}

}  // namespace kvant::engine
