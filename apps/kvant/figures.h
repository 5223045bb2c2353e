// Speed and memory of a session, for people and for programs.
#pragma once

#include <string>

#include "apps/kvant/json.h"
#include "kvant/engine/session.h"

namespace kvant::app {

// "prompt 812 tokens at 2210.4 tokens/s, reply 12 tokens at 391.0 tokens/s"
std::string speed_text(const engine::Figures& figures);

// "memory: planned 61.2 MiB (...), allocated 24.1 MiB, weights mapped 15.2 MiB, peak RSS 58.0 MiB"
std::string memory_text(const engine::Session& session);

// {"prefill_tokens": ..., "prefill_tokens_per_second": ..., "planned_bytes": ..., ...}
Json::Object figures_json(const engine::Session& session);

// The most physical memory this process has held.
Bytes peak_rss();

// n per second, 0 when no time was measured.
double rate(std::int64_t n, double seconds);

}  // namespace kvant::app
