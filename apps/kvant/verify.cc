// kvant verify: compare a model with its golden file, by every route to a position.
#include <fmt/format.h>

#include <filesystem>

#include "apps/kvant/json.h"
#include "apps/kvant/opened_model.h"
#include "apps/kvant/text.h"
#include "apps/kvant/verbs.h"
#include "kvant/engine/golden.h"
#include "kvant/engine/verify.h"

namespace kvant::app {
namespace {

std::string model_of(const VerifyOptions& options) {
  if (options.model) return *options.model;
  std::error_code unknown;
  if (std::filesystem::is_directory(options.golden, unknown)) return options.golden;
  const auto parent = std::filesystem::path(options.golden).parent_path();
  return parent.empty() ? "." : parent.string();
}

NamedResult<std::shared_ptr<const model::LoadedModel>> load_model_of(const VerifyOptions& options) {
  auto loaded = model::load_model(model_of(options), options.machine.access);
  if (loaded || options.model || loaded.error().code() != ErrorCode::kMissingFile) return loaded;
  return NamedError(loaded.error().error(),
                    "without -m DIR the model is sought here: " + loaded.error().detail());
}

std::string same_bits_text(std::int64_t first_other_bit) {
  return first_other_bit < 0 ? "equal" : fmt::format("differ at {}", first_other_bit);
}

std::string report_text(const engine::VerifyReport& report) {
  std::string out = fmt::format("{:<22} {:>11} {:>11} {:>11} {:>7} {:>7}  {}\n", "route", "logits",
                                "hidden", "nll", "argmax", "greedy", "bits");
  for (const engine::RouteReport& route : report.routes) {
    out += fmt::format("{:<22} {:>11.3e} {:>11.3e} {:>11.3e} {:>7} {:>7}  {}\n", route.name,
                       route.max_logit_error, route.max_hidden_error, route.max_nll_error,
                       route.argmax_misses, route.greedy_misses,
                       same_bits_text(route.first_other_bit));
  }
  return out;
}

Json::Object report_json(const engine::VerifyReport& report, bool passed) {
  Json::Array routes;
  for (const engine::RouteReport& route : report.routes) {
    routes.emplace_back(Json::Object{{"route", route.name},
                                     {"max_logit_error", route.max_logit_error},
                                     {"max_hidden_error", route.max_hidden_error},
                                     {"max_nll_error", route.max_nll_error},
                                     {"argmax_misses", route.argmax_misses},
                                     {"greedy_misses", route.greedy_misses},
                                     {"first_other_bit", route.first_other_bit}});
  }
  return {{"passed", passed},
          {"logit_tolerance", report.logit_tolerance},
          {"routes", std::move(routes)}};
}

NamedResult<int> check(const VerifyOptions& options, Streams& streams) {
  const auto golden = KVANT_TRY(engine::read_golden(options.golden));
  const auto machine = KVANT_TRY(open_machine(options.machine));
  const auto model = KVANT_TRY(load_model_of(options));
  const engine::VerifyOptions wanted{
      .keys = options.kv.keys, .values = options.kv.values, .routes = options.routes};
  streams.note(fmt::format("{} tokens, {}, {}, {} kernels", golden.tokens.size(),
                           kv_text(options.kv), counted(machine.pool->n_threads(), "thread"),
                           machine.kernels->name));
  const auto report = KVANT_TRY(engine::verify(golden, model, machine, wanted));
  const bool passed = report.passed();
  if (options.output == OutputForm::kJson) {
    streams.print(to_text(report_json(report, passed)));
  } else {
    streams.print(report_text(report));
    streams.print(fmt::format("{}: {}, tolerance of a logit {:.3e}\n", passed ? "PASS" : "FAIL",
                              kv_text(options.kv), report.logit_tolerance));
  }
  return passed ? kOk
                : streams.fail(NamedError(Error{.code = ErrorCode::kVerifyFailed}, options.golden));
}

}  // namespace

int run_verb(const VerifyOptions& options, Streams& streams) {
  const auto code = check(options, streams);
  return code ? *code : streams.fail(code.error());
}

}  // namespace kvant::app
