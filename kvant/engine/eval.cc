#include "kvant/engine/eval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kvant/base/file.h"
#include "kvant/engine/likelihood.h"
#include "kvant/engine/sampler.h"
#include "kvant/kernels/math.h"
#include "kvant/model/token_check.h"
#include "kvant/state/sequence.h"

namespace kvant::engine {
namespace {

constexpr std::int64_t kChunk = 512;     // rows a step
constexpr std::int64_t kLogitRows = 64;  // logits at a time

// A sequence and a runner that evaluate one token list after another from an empty state.
struct Evaluator {
  Runner runner;
  state::Sequence sequence;
};

NamedResult<Evaluator> create_evaluator(const EvalSetup& setup, Tokens context) {
  const MemoryPlan plan =
      KVANT_TRY(plan_memory(setup.model->config, {.context = context,
                                                  .keys = setup.keys,
                                                  .values = setup.values,
                                                  .chunk = Tokens(kChunk),
                                                  .logit_rows = Rows(kLogitRows),
                                                  .n_threads = setup.machine.pool->n_threads()}));
  auto pool = KVANT_TRY(state::PagePool::create(*setup.machine.device, plan.state));
  auto sequence = KVANT_TRY(state::Sequence::create(std::move(pool), context));
  auto runner =
      KVANT_TRY(Runner::create(setup.model->network, setup.machine, plan.workspace_shape));
  return Evaluator{.runner = std::move(runner), .sequence = std::move(sequence)};
}

// Scores tokens [first, n) of a list by the logits of the token before each.
class Scorer final : public model::PassObserver {
 public:
  Scorer(std::span<const TokenId> tokens, std::size_t first) : tokens_(tokens), first_(first) {}

  void begin_step(std::size_t position) { start_ = position; }
  void on_logits(std::size_t, std::size_t row, std::span<const float> logits) override {
    const std::size_t target = start_ + row + 1;
    if (target < first_ || target >= tokens_.size()) return;
    KVANT_CHECK(static_cast<std::size_t>(tokens_[target]) < logits.size());  // score has checked
    const double nll = negative_log_likelihood(logits, tokens_[target]);
    nll_sum_ += nll;
    nll_squares_ += nll * nll;
    ++n_scored_;
    exact_ = exact_ && argmax(logits) == tokens_[target];
  }

  double nll_sum() const { return nll_sum_; }
  double nll_squares() const { return nll_squares_; }
  std::int64_t n_scored() const { return n_scored_; }
  bool exact() const { return exact_; }

 private:
  std::span<const TokenId> tokens_;
  std::size_t first_;
  std::size_t start_ = 0;
  double nll_sum_ = 0.0;
  double nll_squares_ = 0.0;
  std::int64_t n_scored_ = 0;
  bool exact_ = true;
};

// Evaluates a list from an empty state; logits only where tokens [first, n) need them.
NamedStatus score(Evaluator& evaluator, std::span<const TokenId> tokens, std::size_t first,
                  Scorer& scorer) {
  const Status known = model::check_tokens(tokens, evaluator.runner.network().config());
  if (!known) return NamedError(known.error(), "tokenizer and model disagree");
  KVANT_TRY(evaluator.sequence.reset());
  const auto step = static_cast<std::size_t>(evaluator.runner.shape().max_rows.value());
  const std::size_t n = tokens.size() - 1;  // the last token predicts nothing that we score
  for (std::size_t done = 0; done < n;) {
    std::size_t count = std::min(step, n - done);
    const bool before_answer = done + 1 < first;
    // Cut the step where scoring begins, so that the prompt needs no logits.
    if (before_answer) count = std::min(count, first - 1 - done);
    scorer.begin_step(done);
    KVANT_TRY(evaluator.runner.step(
        {.sequence = &evaluator.sequence,
         .tokens = tokens.subspan(done, count),
         .wanted = before_answer ? model::LogitsWanted::kNone : model::LogitsWanted::kAll},
        scorer));
    done += count;
  }
  if (!std::isfinite(scorer.nll_sum())) {
    return NamedError(Error{.code = ErrorCode::kBadValue},
                      "a likelihood is not a number; the model's weights may be damaged");
  }
  return {};
}

struct EncodedCase {
  std::vector<TokenId> tokens;  // prompt, answer, end
  std::size_t n_prompt = 0;
};

NamedResult<EncodedCase> encode_case(const model::Tokenizer& tokenizer, const RecallCase& recall,
                                     TokenId end) {
  auto prompt = tokenizer.encode(recall.prompt, {.special = model::SpecialTokens::kParse});
  if (!prompt) return NamedError(prompt.error(), "prompt");
  auto answer = tokenizer.encode(recall.answer, {});
  if (!answer) return NamedError(answer.error(), "answer");
  if (prompt->empty()) return NamedError(Error{.code = ErrorCode::kEmptyPrompt}, "recall case");
  EncodedCase out{.tokens = std::move(*prompt)};
  out.n_prompt = out.tokens.size();
  out.tokens.insert(out.tokens.end(), answer->begin(), answer->end());
  out.tokens.push_back(end);
  return out;
}

}  // namespace

NamedResult<std::map<std::int64_t, RecallGroup>> eval_recall(const EvalSetup& setup,
                                                             const std::vector<RecallCase>& cases) {
  const auto end = setup.tokenizer->find_added("<|im_end|>");
  if (!end) return NamedError(Error{.code = ErrorCode::kMissingKey}, "tokenizer: <|im_end|>");
  std::vector<EncodedCase> encoded;
  std::size_t longest = 2;
  for (const RecallCase& recall : cases) {
    encoded.push_back(KVANT_TRY(encode_case(*setup.tokenizer, recall, *end)));
    longest = std::max(longest, encoded.back().tokens.size());
  }
  if (longest > static_cast<std::size_t>(setup.model->config.context_length)) {
    return NamedError(
        Error{.code = ErrorCode::kPromptTooLong,
              .actual = longest,
              .expected = static_cast<std::uint64_t>(setup.model->config.context_length)},
        "recall case");
  }
  Evaluator evaluator =
      KVANT_TRY(create_evaluator(setup, Tokens(static_cast<std::int64_t>(longest))));

  std::map<std::int64_t, RecallGroup> groups;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const EncodedCase& recall = encoded[i];
    Scorer scorer(recall.tokens, recall.n_prompt);
    KVANT_TRY(score(evaluator, recall.tokens, recall.n_prompt, scorer));
    RecallGroup& group = groups[cases[i].people];
    group.n_cases += 1;
    group.n_exact += scorer.exact() ? 1 : 0;
    group.prompt_tokens += static_cast<std::int64_t>(recall.n_prompt);
    group.answer_tokens += scorer.n_scored();
    group.nll_sum += scorer.nll_sum();
    if (setup.progress) {
      setup.progress(static_cast<std::int64_t>(i + 1), static_cast<std::int64_t>(cases.size()));
    }
  }
  return groups;
}

NamedResult<TextReport> eval_text(const EvalSetup& setup, std::string_view text, Tokens window) {
  if (window.value() < 2) {
    return NamedError(Error{.code = ErrorCode::kInvalidArgument,
                            .actual = static_cast<std::uint64_t>(window.value()),
                            .expected = 2},
                      "window");
  }
  auto encoded = setup.tokenizer->encode(text, {});
  if (!encoded) return NamedError(encoded.error(), "text");
  if (encoded->size() < 2) return NamedError(Error{.code = ErrorCode::kEmptyPrompt}, "text");
  const std::span<const TokenId> tokens = *encoded;
  const std::size_t width = std::min(window.size(), tokens.size());
  Evaluator evaluator =
      KVANT_TRY(create_evaluator(setup, Tokens(static_cast<std::int64_t>(width))));

  TextReport report;
  double sum = 0.0;
  double squares = 0.0;
  for (std::size_t begin = 0; begin + 1 < tokens.size(); begin += width) {
    const auto part = tokens.subspan(begin, std::min(width, tokens.size() - begin));
    Scorer scorer(part, 1);
    KVANT_TRY(score(evaluator, part, 1, scorer));
    sum += scorer.nll_sum();
    squares += scorer.nll_squares();
    report.n_tokens += scorer.n_scored();
    report.n_windows += 1;
    if (setup.progress) {
      setup.progress(static_cast<std::int64_t>(begin + part.size()),
                     static_cast<std::int64_t>(tokens.size()));
    }
  }
  const auto n = static_cast<double>(report.n_tokens);
  report.mean_nll = sum / n;
  report.perplexity = kernels::exp64(report.mean_nll);
  const double variance = std::max(0.0, squares / n - report.mean_nll * report.mean_nll);
  report.perplexity_error = report.perplexity * std::sqrt(variance / n);
  return report;
}

}  // namespace kvant::engine
