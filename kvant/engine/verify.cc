#include "kvant/engine/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "kvant/base/hash.h"
#include "kvant/engine/likelihood.h"
#include "kvant/engine/memory_plan.h"
#include "kvant/engine/sampler.h"
#include "kvant/model/token_check.h"

namespace kvant::engine {
namespace {

constexpr std::int64_t kLogitRows = 64;
constexpr std::array<std::int64_t, 7> kChunkSizes = {3, 7, 64, 127, 128, 129, 512};

double largest_magnitude(const FloatRows& rows) {
  double largest = 0.0;
  for (const float value : rows.values) {
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  return largest;
}

// The worse of two errors; a NaN is as bad as it gets and must not pass for agreement.
double worse(double a, double b) {
  return a >= 0.0 && b >= 0.0 ? std::max(a, b) : std::numeric_limits<double>::infinity();
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = worse(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest;
}

// How far the largest logit is ahead of the second.
double top_margin(std::span<const float> logits) {
  float first = -std::numeric_limits<float>::infinity();
  float second = first;
  for (const float logit : logits) {
    if (logit > first) {
      second = std::exchange(first, logit);
    } else {
      second = std::max(second, logit);
    }
  }
  return static_cast<double>(first) - static_cast<double>(second);
}

// Compares one route with the golden file as its logits and hidden rows come in.
class Comparer final : public model::PassObserver {
 public:
  Comparer(const Golden& golden, double tolerance, std::string name)
      : golden_(golden), tolerance_(tolerance) {
    report_.name = std::move(name);
    digests_.resize(golden.tokens.size() + golden.greedy.size());
    for (const FloatRows& rows : golden.hidden) {
      hidden_scale_.push_back(1.0 + largest_magnitude(rows));
    }
  }

  // The next step's rows of span 0 begin at this position; hidden rows are compared if `compare`.
  void begin_step(std::int64_t position, std::size_t n_rows) {
    start_ = position;
    n_rows_ = n_rows;
  }

  void on_logits(std::size_t span, std::size_t row, std::span<const float> logits) override {
    if (span != 0) return;
    const auto position = static_cast<std::size_t>(start_) + row;
    digests_[position] = xxh3_128_of(logits);
    last_argmax_ = static_cast<TokenId>(argmax(logits));
    if (position < golden_.tokens.size()) {
      compare_prompt(position, logits);
    } else {
      compare_greedy(position - golden_.tokens.size() + 1, logits);
    }
    if (position + 1 == golden_.tokens.size()) compare_greedy(0, logits);
  }

  void on_hidden(LayerIndex layer, std::span<const float> rows) override {
    if (layer.index() >= golden_.hidden.size()) return;
    const FloatRows& expected = golden_.hidden[layer.index()];
    const auto width = static_cast<std::size_t>(expected.width);
    for (std::size_t i = 0; i < golden_.hidden_positions.size(); ++i) {
      const std::int64_t row = golden_.hidden_positions[i] - start_;
      if (row < 0 || row >= static_cast<std::int64_t>(n_rows_)) continue;
      const double error = largest_difference(
          expected.row(i), rows.subspan(static_cast<std::size_t>(row) * width, width));
      report_.max_hidden_error =
          worse(report_.max_hidden_error, error / hidden_scale_[layer.index()]);
    }
  }

  TokenId last_argmax() const { return last_argmax_; }
  RouteReport& report() { return report_; }
  const std::vector<Digest128>& digests() const { return digests_; }

 private:
  // Another token than expected, and not for a near tie: the margin of our own logits stands for
  // the golden one, which is stored for few positions. No argmax at all is a miss.
  bool missed(TokenId expected, std::span<const float> logits) const {
    return last_argmax_ != expected && !(top_margin(logits) <= 2 * tolerance_);
  }

  void compare_prompt(std::size_t position, std::span<const float> logits) {
    const auto known =
        std::ranges::find(golden_.logit_positions, static_cast<std::int64_t>(position));
    if (known != golden_.logit_positions.end()) {
      const auto row =
          golden_.logits.row(static_cast<std::size_t>(known - golden_.logit_positions.begin()));
      report_.max_logit_error = worse(report_.max_logit_error, largest_difference(row, logits));
    }
    if (missed(golden_.argmax[position], logits)) {
      ++report_.argmax_misses;
    }
    if (position + 1 < golden_.tokens.size()) {
      const double nll = negative_log_likelihood(logits, golden_.tokens[position + 1]);
      const double error = std::abs(nll - static_cast<double>(golden_.nll[position]));
      report_.max_nll_error = worse(report_.max_nll_error, error);
    }
    const double error =
        std::abs(logsumexp(logits) - static_cast<double>(golden_.logsumexp[position]));
    report_.max_nll_error = worse(report_.max_nll_error, error);
  }

  // Logits that choose greedy token `index`.
  void compare_greedy(std::size_t index, std::span<const float> logits) {
    if (index >= golden_.greedy.size()) return;
    if (missed(golden_.greedy[index], logits)) {
      ++report_.greedy_misses;
    }
    if (index < static_cast<std::size_t>(golden_.greedy_logits.n_rows)) {
      report_.max_logit_error = worse(report_.max_logit_error,
                                      largest_difference(golden_.greedy_logits.row(index), logits));
    }
  }

  const Golden& golden_;
  double tolerance_;
  RouteReport report_;
  std::vector<Digest128> digests_;    // of the logits after each position
  std::vector<double> hidden_scale_;  // [n_layers + 1]
  std::int64_t start_ = 0;
  std::size_t n_rows_ = 0;
  TokenId last_argmax_ = -1;
};

// How much a kind of rows widens the tolerance of f32: about four times what its rounding was seen
// to cost on the golden models.
double coarseness(codec::Kind kind) {
  switch (kind) {
    case codec::Kind::kF32:
      return 1.0;
    case codec::Kind::kF16:
      return 16.0;
    case codec::Kind::kBf16:
      return 256.0;
  }
  return 1.0;
}

// A runner and sequences for one route after another.
class Verifier {
 public:
  static constexpr std::int64_t kSequences = 3;

  Verifier(const Golden& golden, Runner runner, std::vector<state::Sequence> sequences,
           double tolerance)
      : golden_(golden),
        runner_(std::move(runner)),
        sequences_(std::move(sequences)),
        tolerance_(tolerance) {}

  NamedStatus run(Route route, VerifyReport& report) {
    switch (route) {
      case Route::kOneshot:
        return run_chunked("one prefill", static_cast<std::int64_t>(golden_.tokens.size()), report);
      case Route::kDecode:
        return run_chunked("decode", 1, report);
      case Route::kChunks:
        for (const std::int64_t size : kChunkSizes) {
          KVANT_TRY(run_chunked(fmt::format("chunks of {}", size), size, report));
        }
        return {};
      case Route::kBatch:
        return run_batch(report);
      case Route::kSnapshot:
        return run_snapshot(report);
    }
    return {};
  }

 private:
  std::span<const TokenId> part(std::int64_t begin, std::int64_t size) const {
    const auto first = static_cast<std::size_t>(begin);
    return std::span(golden_.tokens)
        .subspan(first, std::min(static_cast<std::size_t>(size), golden_.tokens.size() - first));
  }

  NamedStatus step(Comparer& comparer, std::span<const TokenId> tokens) {
    comparer.begin_step(sequences_[0].position().value(), tokens.size());
    KVANT_TRY(runner_.step(
        {.sequence = &sequences_[0], .tokens = tokens, .wanted = model::LogitsWanted::kAll},
        comparer));
    return {};
  }

  // Tokens from where sequence 0 is to the end, then the greedy continuation.
  NamedStatus run_to_end(Comparer& comparer, std::int64_t chunk) {
    const auto n = static_cast<std::int64_t>(golden_.tokens.size());
    while (sequences_[0].position().value() < n) {
      KVANT_TRY(step(comparer, part(sequences_[0].position().value(), chunk)));
    }
    // Forced along the golden continuation, so that one miss is counted once.
    for (std::size_t i = 0; i + 1 < golden_.greedy.size(); ++i) {
      KVANT_TRY(step(comparer, {&golden_.greedy[i], 1}));
    }
    return {};
  }

  NamedStatus run_chunked(std::string name, std::int64_t chunk, VerifyReport& report) {
    Comparer comparer(golden_, tolerance_, std::move(name));
    KVANT_TRY(sequences_[0].reset());
    KVANT_TRY(run_to_end(comparer, chunk));
    finish(comparer, report);
    return {};
  }

  // Sequence 0 in chunks of 64 while two others, offset and reversed, run beside it.
  NamedStatus run_batch(VerifyReport& report) {
    constexpr std::int64_t kChunk = 64;
    constexpr std::int64_t kOther = 17;
    Comparer comparer(golden_, tolerance_, "beside two others");
    for (state::Sequence& sequence : sequences_) KVANT_TRY(sequence.reset());
    const std::vector<TokenId> reversed(golden_.tokens.rbegin(), golden_.tokens.rend());
    const auto n = static_cast<std::int64_t>(golden_.tokens.size());
    for (std::int64_t begin = 0; begin < n; begin += kChunk) {
      const auto other = std::span(reversed).first(static_cast<std::size_t>(std::min(kOther, n)));
      const std::array<model::BatchSpan, kSequences> lanes = {
          model::BatchSpan{&sequences_[0], part(begin, kChunk), model::LogitsWanted::kAll},
          model::BatchSpan{&sequences_[1], part(0, kOther), model::LogitsWanted::kLast},
          model::BatchSpan{&sequences_[2], other, model::LogitsWanted::kNone}};
      std::array<Status, kSequences> outcomes;
      comparer.begin_step(begin, lanes[0].tokens.size());
      runner_.step(lanes, outcomes, comparer);
      for (std::size_t i = 0; i < outcomes.size(); ++i) {
        // The others may run out of context: they begin again.
        if (!outcomes[i] && i > 0) KVANT_TRY(sequences_[i].reset());
        if (!outcomes[i] && i == 0) return NamedError(outcomes[0].error());
      }
    }
    KVANT_TRY(run_to_end(comparer, kChunk));
    finish(comparer, report);
    return {};
  }

  // At positions around page borders: snapshot, run on, restore, run again for a page and a half.
  NamedStatus run_snapshot(VerifyReport& report) {
    constexpr std::array<std::int64_t, 8> kPositions = {0, 1, 2, 63, 127, 128, 129, 257};
    const auto n = static_cast<std::int64_t>(golden_.tokens.size());
    for (const std::int64_t position : kPositions) {
      if (position >= n) continue;
      Comparer comparer(golden_, tolerance_, fmt::format("snapshot at {}", position));
      KVANT_TRY(sequences_[0].reset());
      if (position > 0) KVANT_TRY(step(comparer, part(0, position)));
      const auto snapshot = KVANT_TRY(sequences_[0].snapshot());
      // Other tokens, so that nothing of the first run can help the second.
      Comparer ignored(golden_, tolerance_, "");
      const std::int64_t room = sequences_[0].capacity().value() - position;
      const std::vector<TokenId> other(static_cast<std::size_t>(std::min<std::int64_t>(room, 150)),
                                       golden_.tokens.back());
      ignored.begin_step(0, 0);
      KVANT_TRY(runner_.step(
          {.sequence = &sequences_[0], .tokens = other, .wanted = model::LogitsWanted::kNone},
          ignored));
      KVANT_TRY(sequences_[0].restore(snapshot));
      for (std::int64_t at = position; at < std::min(n, position + 192);) {
        const auto tokens = part(at, 64);
        KVANT_TRY(step(comparer, tokens));
        at += static_cast<std::int64_t>(tokens.size());
      }
      finish(comparer, report);
    }
    return {};
  }

  void finish(Comparer& comparer, VerifyReport& report) {
    const auto& digests = comparer.digests();
    if (!first_digests_) first_digests_ = digests;
    for (std::size_t i = 0; i < digests.size(); ++i) {
      const bool evaluated = digests[i] != Digest128{};
      if (!evaluated || digests[i] == (*first_digests_)[i]) continue;
      comparer.report().first_other_bit = static_cast<std::int64_t>(i);
      break;
    }
    report.routes.push_back(comparer.report());
  }

  const Golden& golden_;
  Runner runner_;
  std::vector<state::Sequence> sequences_;
  double tolerance_;
  std::optional<std::vector<Digest128>> first_digests_;
};

bool all_finite(const Golden& golden) {
  const auto finite = [](const std::vector<float>& values) {
    return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
  };
  return finite(golden.logsumexp) && finite(golden.nll) && finite(golden.logits.values) &&
         finite(golden.greedy_logits.values) &&
         std::ranges::all_of(golden.hidden,
                             [&](const FloatRows& rows) { return finite(rows.values); });
}

NamedStatus check_fits(const Golden& golden, const model::ModelConfig& config) {
  const std::size_t n = golden.tokens.size() + golden.greedy.size();
  if (golden.tokens.empty()) return NamedError(Error{.code = ErrorCode::kEmptyPrompt}, "golden");
  if (static_cast<std::int64_t>(n) > config.context_length) {
    return NamedError(Error{.code = ErrorCode::kPromptTooLong,
                            .actual = n,
                            .expected = static_cast<std::uint64_t>(config.context_length)},
                      "golden file");
  }
  for (const auto* ids : {&golden.tokens, &golden.argmax, &golden.greedy}) {
    const Status known = model::check_tokens(*ids, config);
    if (!known) return NamedError(known.error(), "golden file");
  }
  if (!all_finite(golden)) {
    return NamedError(Error{.code = ErrorCode::kBadValue}, "golden file: numbers must be finite");
  }
  const auto mismatch = [](std::int64_t actual, std::int64_t expected, const char* what) {
    return NamedError(Error{.code = ErrorCode::kShapeMismatch,
                            .actual = static_cast<std::uint64_t>(actual),
                            .expected = static_cast<std::uint64_t>(expected)},
                      what);
  };
  for (const FloatRows* rows : {&golden.logits, &golden.greedy_logits}) {
    if (rows->n_rows > 0 && rows->width != config.vocab_size) {
      return mismatch(rows->width, config.vocab_size, "golden logits");
    }
  }
  for (const FloatRows& rows : golden.hidden) {
    if (rows.width != config.hidden_size) {
      return mismatch(rows.width, config.hidden_size, "golden hidden states");
    }
  }
  return {};
}

}  // namespace

bool VerifyReport::passed() const {
  return std::ranges::all_of(routes, [&](const RouteReport& route) {
    return route.first_other_bit < 0 && route.max_logit_error <= logit_tolerance &&
           route.argmax_misses == 0 && route.greedy_misses == 0 &&
           route.max_hidden_error <= logit_tolerance && route.max_nll_error <= 2 * logit_tolerance;
  });
}

NamedResult<VerifyReport> verify(const Golden& golden,
                                 const std::shared_ptr<const model::LoadedModel>& model,
                                 const Machine& machine, const VerifyOptions& options) {
  KVANT_TRY(check_fits(golden, model->config));
  const auto n = static_cast<std::int64_t>(golden.tokens.size() + golden.greedy.size());
  const Tokens context(std::min(std::max<std::int64_t>(n, 512), model->config.context_length));
  const MemoryPlan plan =
      KVANT_TRY(plan_memory(model->config, {.context = context,
                                            .keys = options.keys,
                                            .values = options.values,
                                            .chunk = Tokens(std::max<std::int64_t>(n, 512)),
                                            .logit_rows = Rows(kLogitRows),
                                            .n_sequences = Verifier::kSequences,
                                            .n_snapshots = 1,
                                            .n_threads = machine.pool->n_threads()}));
  auto pool = KVANT_TRY(state::PagePool::create(*machine.device, plan.state));
  std::vector<state::Sequence> sequences;
  sequences.reserve(Verifier::kSequences);
  for (std::int64_t i = 0; i < Verifier::kSequences; ++i) {
    sequences.push_back(KVANT_TRY(state::Sequence::create(pool, context)));
  }
  Runner runner = KVANT_TRY(Runner::create(model->network, machine, plan.workspace_shape));

  VerifyReport report;
  report.logit_tolerance = 2e-4 * (1.0 + largest_magnitude(golden.logits) / 10.0) *
                           std::max(coarseness(options.keys), coarseness(options.values));
  Verifier verifier(golden, std::move(runner), std::move(sequences), report.logit_tolerance);
  for (const Route route : options.routes) KVANT_TRY(verifier.run(route, report));
  return report;
}

}  // namespace kvant::engine
