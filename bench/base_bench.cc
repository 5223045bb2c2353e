// What the ground floor costs: handing work to the pool, and checksums.
//
//   build/release/bench/kvant_base_bench
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "kvant/base/hash.h"
#include "kvant/base/thread_pool.h"

namespace kvant {
namespace {

// A decode step has a hundred parallel parts, so the cost of an empty one counts a hundred times.
void parallel_part(benchmark::State& state) {
  auto pool = ThreadPool::create(static_cast<int>(state.range(0)));
  if (!pool) return state.SkipWithError("no pool");
  const std::int64_t n_tasks = state.range(1);
  std::atomic<std::int64_t> calls{0};
  const auto task = [&](std::int64_t, int) { calls.fetch_add(1, std::memory_order_relaxed); };
  (*pool)->run(n_tasks, task);
  if (calls.load() != n_tasks) return state.SkipWithError("tasks were lost");
  for (auto _ : state) (*pool)->run(n_tasks, task);
}
BENCHMARK(parallel_part)->ArgNames({"threads", "tasks"})->ArgsProduct({{1, 2}, {1, 2, 64}});

void checksum(benchmark::State& state) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(state.range(0)), std::byte{7});
  const Digest128 before = xxh3_128(bytes);
  bytes.back() = std::byte{8};
  if (xxh3_128(bytes) == before) return state.SkipWithError("the last byte is not read");
  for (auto _ : state) benchmark::DoNotOptimize(xxh3_128(bytes));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(checksum)->ArgName("bytes")->Arg(1 << 10)->Arg(1 << 16)->Arg(1 << 22);

}  // namespace
}  // namespace kvant
