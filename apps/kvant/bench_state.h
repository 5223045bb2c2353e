// Speed of the state engine by itself, without a model.
#pragma once

#include <string>
#include <vector>

#include "apps/kvant/bench_decode.h"
#include "apps/kvant/json.h"
#include "kvant/base/result.h"
#include "kvant/base/units.h"

namespace kvant::app {

// A copy that the engine made, beside one memcpy of as many bytes.
struct CopyFigures {
  Position position{0};
  Bytes bytes{0};
  Series engine{};  // seconds
  Series plain{};   // seconds

  double ratio() const { return least(engine) / least(plain); }
  static double least(const Series& series);
};

struct StateFigures {
  Tokens positions{0};  // of the large state
  Bytes live{0};        // its live bytes
  Series snapshot{};    // seconds each
  Series fork{};
  Series step{};                          // prepare and commit of one token
  Series rollback{};                      // and the steps are taken again
  std::vector<CopyFigures> diverging{};   // what the first step after a snapshot copies
  std::vector<CopyFigures> serialised{};  // compact files in memory, checksums included
  std::vector<CopyFigures> loaded{};      // and back
  struct Shift {
    Tokens positions{0};
    Series seconds{};
  };
  std::vector<Shift> shifts{};
};

// DeepSeek-V4 Flash's shape, 43 layers, at 100,000 positions; shifts in LFM2-1.2B's shape.
// Errors: those of the state engine, kOutOfMemory among them.
NamedResult<StateFigures> measure_state(std::int64_t n_rounds);

std::string state_text(const StateFigures& figures);
Json::Object state_json(const StateFigures& figures);

}  // namespace kvant::app
