#include "apps/kvant/bench_decode.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/kvant/bandwidth.h"
#include "apps/kvant/figures.h"
#include "apps/kvant/synth.h"
#include "apps/kvant/temporary_directory.h"
#include "kvant/base/clock.h"
#include "kvant/base/prng.h"
#include "kvant/engine/session.h"

namespace kvant::app {
namespace {

constexpr Tokens kPromptTokens{512};
constexpr std::int64_t kReplyTokens = 16;  // of one round
// About as many as tokens, so that the best of each had the same chances on a busy machine.
constexpr std::int64_t kReadsPerRound = 16;

NamedResult<std::shared_ptr<const model::LoadedModel>> load(const BenchOptions& options,
                                                            Streams& streams) {
  if (options.model) return model::load_model(*options.model, options.machine.access);
  streams.note("writing random weights in the shape of LFM2-350M ...");
  const auto folder = KVANT_TRY(TemporaryDirectory::create(options.scratch_dir));
  KVANT_TRY(write_random_model(lfm2_350m(), folder.path()));
  // Mapped, it needs its directory no longer.
  return model::load_model(folder.path(), options.machine.access);
}

std::vector<TokenId> random_prompt(const model::ModelConfig& config) {
  Xoshiro256 random(1);
  std::vector<TokenId> ids(kPromptTokens.size());
  for (TokenId& id : ids) {
    id = static_cast<TokenId>(random.next() % static_cast<std::uint64_t>(config.vocab_size));
  }
  return ids;
}

// One prompt from an empty state, then some tokens of a reply, each timed.
NamedStatus measure_round(engine::Session& session, std::span<const TokenId> prompt,
                          DecodeFigures& out) {
  auto sampler = KVANT_TRY(engine::Sampler::create({}, session.model().config.vocab_size));
  KVANT_TRY(session.reset());
  const Stopwatch prefill;
  KVANT_TRY(session.append(prompt));
  out.prefill.values.push_back(rate(kPromptTokens.value(), prefill.seconds()));
  // The first token comes from the prompt's logits; every further one costs a pass.
  KVANT_TRY(session.generate({.max_tokens = 1, .stop_tokens = {}}, sampler,
                             [](TokenId) { return true; }));
  Stopwatch token;
  KVANT_TRY(
      session.generate({.max_tokens = kReplyTokens, .stop_tokens = {}}, sampler, [&](TokenId) {
        out.decode.values.push_back(rate(1, token.seconds()));
        token = Stopwatch();
        return true;
      }));
  return {};
}

constexpr double kGiga = 1e9;

}  // namespace

double Series::best() const { return values.empty() ? 0.0 : *std::ranges::max_element(values); }

double Series::median() const {
  if (values.empty()) return 0.0;
  std::vector<double> sorted = values;
  std::ranges::sort(sorted);
  return sorted[(sorted.size() - 1) / 2];
}

double DecodeFigures::decode_bytes_per_second() const {
  return decode.best() * static_cast<double>(bytes_per_token.value());
}

double DecodeFigures::bandwidth_share() const {
  return bandwidth.best() > 0.0 ? decode_bytes_per_second() / bandwidth.best() : 0.0;
}

NamedResult<DecodeFigures> measure_decode(const BenchOptions& options,
                                          const engine::Machine& machine, Streams& streams) {
  auto probe = KVANT_TRY(BandwidthProbe::create(options.scratch_dir));
  const auto model = KVANT_TRY(load(options, streams));
  engine::MemoryOptions memory;
  memory.context = kPromptTokens + Tokens(kReplyTokens + 1);
  const auto session = KVANT_TRY(engine::Session::create(model, machine, memory));
  const auto prompt = random_prompt(model->config);
  // Untimed, so that every page of both files is mapped before the first round.
  probe.measure(*machine.pool);
  DecodeFigures untimed;
  KVANT_TRY(measure_round(*session, prompt, untimed));

  DecodeFigures out{.model = options.model.value_or("random weights, LFM2-350M shape, bf16"),
                    .n_threads = machine.pool->n_threads(),
                    .prompt_tokens = kPromptTokens,
                    .bytes_per_token = model->network->read_bytes_per_token()};
  for (std::int64_t i = 0; i < options.n_rounds; ++i) {
    KVANT_TRY(measure_round(*session, prompt, out));
    for (std::int64_t j = 0; j < kReadsPerRound; ++j) {
      out.bandwidth.values.push_back(probe.measure(*machine.pool));
    }
  }
  return out;
}

std::string decode_text(const DecodeFigures& figures) {
  return fmt::format(
      "model       {}, {} threads\n"
      "prompt      {:.1f} tokens/s best, {:.1f} median ({} tokens)\n"
      "decode      {:.2f} ms/token best, {:.2f} median; {:.1f} tokens/s\n"
      "decode      {:.2f} GB/s of weights ({} bytes a token)\n"
      "read        {:.2f} GB/s best, {:.2f} median (sequential, mapped, 512 MiB)\n"
      "share       {:.1f} % of the best sequential read\n",
      figures.model, figures.n_threads, figures.prefill.best(), figures.prefill.median(),
      figures.prompt_tokens.value(), 1000.0 / figures.decode.best(),
      1000.0 / figures.decode.median(), figures.decode.best(),
      figures.decode_bytes_per_second() / kGiga, figures.bytes_per_token.value(),
      figures.bandwidth.best() / kGiga, figures.bandwidth.median() / kGiga,
      100.0 * figures.bandwidth_share());
}

Json::Object series_json(const Series& series) {
  return {{"best", series.best()}, {"median", series.median()}, {"rounds", json_of(series.values)}};
}

Json::Object decode_json(const DecodeFigures& figures) {
  return {{"model", figures.model},
          {"n_threads", figures.n_threads},
          {"prompt_tokens", figures.prompt_tokens},
          {"bytes_per_token", figures.bytes_per_token},
          {"prefill_tokens_per_second", series_json(figures.prefill)},
          {"decode_tokens_per_second", series_json(figures.decode)},
          {"decode_bytes_per_second", figures.decode_bytes_per_second()},
          {"read_bytes_per_second", series_json(figures.bandwidth)},
          {"share_of_read", figures.bandwidth_share()}};
}

}  // namespace kvant::app
