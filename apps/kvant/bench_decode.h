// Speed of prompts and replies against the memory bandwidth of the same minutes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/kvant/json.h"
#include "apps/kvant/options.h"
#include "apps/kvant/streams.h"
#include "kvant/base/result.h"
#include "kvant/engine/runner.h"

namespace kvant::app {

// Figures of one machine are noisy: a best and a median of several rounds.
struct Series {
  std::vector<double> values{};  // as measured

  double best() const;    // the largest
  double median() const;  // of an even number the lower one
};

struct DecodeFigures {
  std::string model{};
  std::int64_t n_threads = 0;
  Tokens prompt_tokens{0};
  Bytes bytes_per_token{0};  // weights that one decode step reads
  Series prefill{};          // tokens a second
  Series decode{};           // tokens a second
  Series bandwidth{};        // bytes a second

  double decode_bytes_per_second() const;
  double bandwidth_share() const;  // best decode over best sequential read
};

// Takes a prompt, single tokens of a reply and single reads in turn, `n_rounds` times.
// Errors: those of loading or writing the model, of Session and of BandwidthProbe::create.
NamedResult<DecodeFigures> measure_decode(const BenchOptions& options,
                                          const engine::Machine& machine, Streams& streams);

std::string decode_text(const DecodeFigures& figures);
Json::Object decode_json(const DecodeFigures& figures);
Json::Object series_json(const Series& series);

}  // namespace kvant::app
