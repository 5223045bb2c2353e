// kvant bench: what this machine does, and whether its arithmetic is the documented one.
#include <fmt/format.h>

#include "apps/kvant/bandwidth.h"
#include "apps/kvant/bench_decode.h"
#include "apps/kvant/bench_state.h"
#include "apps/kvant/json.h"
#include "apps/kvant/opened_model.h"
#include "apps/kvant/output_file.h"
#include "apps/kvant/verbs.h"
#include "kvant/base/file.h"
#include "kvant/kernels/dispatch.h"
#include "kvant/kernels/numerics_check.h"

namespace kvant::app {
namespace {

constexpr Bytes kMaxDigestsBytes{1 << 20};

// The reader of the text did not know where it came from.
NamedError named(const NamedError& error, const std::string& path) {
  return {error.error(), error.detail().empty() ? path : path + ": " + error.detail()};
}

class Bench {
 public:
  Bench(const BenchOptions& options, Streams& streams) : options_(options), streams_(streams) {}

  NamedResult<int> go() {
    if (options_.write_numerics) KVANT_TRY(write_numerics(*options_.write_numerics));
    if (options_.check_numerics) KVANT_TRY(check_numerics(*options_.check_numerics));
    const auto machine = KVANT_TRY(open_machine(options_.machine));
    if (options_.bandwidth) KVANT_TRY(bandwidth(machine));
    if (options_.decode) {
      const auto figures = KVANT_TRY(measure_decode(options_, machine, streams_));
      report("decode", decode_json(figures), decode_text(figures));
    }
    if (options_.state) {
      const auto figures = KVANT_TRY(measure_state(options_.n_rounds));
      report("state", state_json(figures), state_text(figures));
    }
    if (options_.output == OutputForm::kJson) streams_.print(to_text(json_));
    return differs_ ? kFailure : kOk;
  }

 private:
  void report(const char* name, Json::Object json, const std::string& text) {
    json_.emplace_back(name, std::move(json));
    if (options_.output == OutputForm::kText) streams_.print(text);
  }

  // The scalar reference is the measure; it runs everywhere.
  static NamedStatus write_numerics(const std::string& path) {
    const auto digests = kernels::numerics_digests(kernels::table_of(kernels::Target::kRef));
    auto file = KVANT_TRY(OutputFile::replace(path));
    KVANT_TRY(file.write(kernels::numerics_json(digests)));
    return file.close();
  }

  // Every target that this processor can run, even after one of them differs.
  NamedStatus check_numerics(const std::string& path) {
    const std::string text = KVANT_TRY(read_text_file(path, kMaxDigestsBytes));
    const auto expected = kernels::parse_numerics_json(text);
    if (!expected) return named(expected.error(), path);
    Json::Array targets;
    std::string lines;
    for (const kernels::Target target : kernels::all_targets()) {
      const auto name = kernels::name_of(target);
      std::string outcome = "not available on this machine";
      if (kernels::is_available(target)) {
        const NamedStatus status = kernels::check_numerics(kernels::table_of(target), *expected);
        outcome = status ? "equal" : "differs";
        if (!status) streams_.fail(status.error());
        differs_ = differs_ || !status;
      }
      lines += fmt::format("numerics    {:<7} {}\n", name, outcome);
      targets.emplace_back(Json::Object{{"target", name}, {"outcome", outcome}});
    }
    lines += fmt::format("numerics    {} digests of {} in {}\n", expected->size(),
                         kernels::kNumericsVersion, path);
    report("numerics",
           {{"version", kernels::kNumericsVersion},
            {"digests", expected->size()},
            {"targets", std::move(targets)}},
           lines);
    return {};
  }

  NamedStatus bandwidth(const engine::Machine& machine) {
    auto probe = KVANT_TRY(BandwidthProbe::create(options_.scratch_dir));
    probe.measure(*machine.pool);  // untimed: maps every page
    Series series;
    for (std::int64_t i = 0; i < options_.n_rounds; ++i) {
      series.values.push_back(probe.measure(*machine.pool));
    }
    Json::Object json = {{"n_threads", machine.pool->n_threads()},
                         {"file_bytes", BandwidthProbe::kFileBytes},
                         {"read_bytes_per_second", series_json(series)}};
    report("bandwidth", std::move(json),
           fmt::format("read        {:.2f} GB/s best, {:.2f} median (sequential, mapped, {} "
                       "threads)\n",
                       series.best() / 1e9, series.median() / 1e9, machine.pool->n_threads()));
    return {};
  }

  const BenchOptions& options_;
  Streams& streams_;
  Json::Object json_;
  bool differs_ = false;  // a target's arithmetic from the digests
};

}  // namespace

int run_verb(const BenchOptions& options, Streams& streams) {
  const auto code = Bench(options, streams).go();
  return code ? *code : streams.fail(code.error());
}

}  // namespace kvant::app
