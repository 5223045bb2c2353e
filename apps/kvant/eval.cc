// kvant eval: perplexity of a text, or recall of facts at a distance.
#include "kvant/engine/eval.h"

#include <fmt/format.h>

#include "apps/kvant/json.h"
#include "apps/kvant/opened_model.h"
#include "apps/kvant/verbs.h"
#include "kvant/base/file.h"

namespace kvant::app {
namespace {

constexpr Bytes kMaxTextBytes{1 << 30};

using Groups = std::map<std::int64_t, engine::RecallGroup>;

double mean(double sum, std::int64_t n) { return n > 0 ? sum / static_cast<double>(n) : 0.0; }

std::string recall_text(const Groups& groups) {
  std::string out = fmt::format("{:>7} {:>14} {:>7} {:>7} {:>12}\n", "people", "prompt tokens",
                                "cases", "exact", "answer nll");
  for (const auto& [people, group] : groups) {
    out += fmt::format("{:>7} {:>14.1f} {:>7} {:>7} {:>12.6f}\n", people,
                       mean(static_cast<double>(group.prompt_tokens), group.n_cases), group.n_cases,
                       group.n_exact, mean(group.nll_sum, group.answer_tokens));
  }
  return out;
}

Json::Object recall_json(const Groups& groups) {
  Json::Array out;
  for (const auto& [people, group] : groups) {
    out.emplace_back(Json::Object{{"people", people},
                                  {"cases", group.n_cases},
                                  {"exact", group.n_exact},
                                  {"prompt_tokens", group.prompt_tokens},
                                  {"answer_tokens", group.answer_tokens},
                                  {"answer_nll", mean(group.nll_sum, group.answer_tokens)}});
  }
  return {{"recall", std::move(out)}};
}

std::string perplexity_text(const engine::TextReport& report) {
  return fmt::format(
      "perplexity {:.4f} +- {:.4f}, mean nll {:.6f}, {} tokens predicted in {} windows\n",
      report.perplexity, report.perplexity_error, report.mean_nll, report.n_tokens,
      report.n_windows);
}

Json::Object perplexity_json(const engine::TextReport& report) {
  return {{"perplexity", report.perplexity},
          {"perplexity_error", report.perplexity_error},
          {"mean_nll", report.mean_nll},
          {"tokens", report.n_tokens},
          {"windows", report.n_windows}};
}

NamedResult<int> evaluate(const EvalOptions& options, Streams& streams) {
  // The text first: a missing file is known before a large model is loaded.
  std::vector<engine::RecallCase> cases;
  std::string text;
  if (options.recall_file) {
    cases = KVANT_TRY(engine::read_recall(*options.recall_file));
  } else {
    text = KVANT_TRY(read_text_file(*options.text_file, kMaxTextBytes));
  }
  const auto opened = KVANT_TRY(open_model(options.model, options.machine));
  ProgressLine progress(streams, options.recall_file ? "cases" : "windows");
  const engine::EvalSetup setup{
      .model = opened.model,
      .tokenizer = &opened.tokenizer,
      .machine = opened.machine,
      .keys = options.kv.keys,
      .values = options.kv.values,
      .progress = [&](std::int64_t done, std::int64_t all) { progress.update(done, all); }};
  streams.note(kv_text(options.kv));
  const bool json = options.output == OutputForm::kJson;
  if (options.recall_file) {
    const auto groups = KVANT_TRY(engine::eval_recall(setup, cases));
    progress.clear();
    streams.print(json ? to_text(recall_json(groups)) : recall_text(groups));
  } else {
    const auto report = KVANT_TRY(engine::eval_text(setup, text, options.window));
    progress.clear();
    streams.print(json ? to_text(perplexity_json(report)) : perplexity_text(report));
  }
  return kOk;
}

}  // namespace

int run_verb(const EvalOptions& options, Streams& streams) {
  const auto code = evaluate(options, streams);
  return code ? *code : streams.fail(code.error());
}

}  // namespace kvant::app
