#include "apps/kvant/bench_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "kvant/base/clock.h"
#include "kvant/state/declarations.h"
#include "kvant/state/live.h"
#include "kvant/state/sequence.h"
#include "kvant/state/state_file_writer.h"
#include "kvant/tensor/buffer.h"
#include "kvant/tensor/device.h"

namespace kvant::app {
namespace {

constexpr Tokens kPositions{100'000};
constexpr Tokens kChunk{2048};

// Two layers without compression, then ratios 4 and 128 in turn.
state::DeepSeekV4StateShape flash_shape() {
  state::DeepSeekV4StateShape shape{.n_layers = Layers(43)};
  shape.compress_ratios = {0, 0};
  for (int i = 2; i < 43; ++i) shape.compress_ratios.push_back(i % 2 == 0 ? 4 : 128);
  return shape;
}

// 16 layers, 6 of them attention of 8 KV heads.
state::Lfm2StateShape lfm2_shape() {
  state::Lfm2StateShape shape{.head_dim = Elements(64), .hidden_size = Elements(2048)};
  for (int i = 0; i < 16; ++i) shape.kv_heads.push_back(Heads(i % 3 == 2 || i == 14 ? 8 : 0));
  return shape;
}

Result<std::shared_ptr<state::PagePool>> make_pool(const Result<state::Plan>& plan) {
  if (!plan) return plan.error();
  return state::PagePool::create(tensor::host_device(), *plan);
}

Status step(state::Sequence& sequence, Tokens n) {
  KVANT_TRY(sequence.prepare(n));
  return sequence.commit(sequence.position(), n);
}

Status advance_to(state::Sequence& sequence, Tokens positions) {
  while (sequence.position() - Position(0) < positions) {
    KVANT_TRY(step(sequence, std::min(kChunk, positions - (sequence.position() - Position(0)))));
  }
  return ok();
}

// Calls `each` and adds what it took; `each` returns a Status or a Result.
template <class Each>
Status timed(Series& series, const Each& each) {
  const Stopwatch watch;
  auto done = each();
  series.values.push_back(watch.seconds());
  return done ? ok() : Status(done.error());
}

Status measure_large(std::int64_t n_rounds, StateFigures& figures) {
  const auto pool = KVANT_TRY(
      make_pool(state::plan_deepseek_v4(flash_shape(), {.context = kPositions + Tokens(4096),
                                                        .n_sequences = 1,
                                                        .n_snapshots = 2,
                                                        .max_rollback = Tokens(8)})));
  auto sequence = KVANT_TRY(state::Sequence::create(pool, pool->plan().request.context));
  KVANT_TRY(advance_to(sequence, kPositions));
  figures.positions = kPositions;
  figures.live = state::live_bytes(pool->plan(), sequence.position());
  for (std::int64_t i = 0; i < 20 * n_rounds; ++i) {
    KVANT_TRY(timed(figures.snapshot, [&] { return sequence.snapshot(); }));
    KVANT_TRY(timed(figures.fork, [&] { return sequence.fork(); }));
  }
  for (std::int64_t i = 0; i < 100 * n_rounds && i < 4000; ++i) {
    KVANT_TRY(timed(figures.step, [&] { return step(sequence, Tokens(1)); }));
  }
  for (std::int64_t i = 0; i < 20 * n_rounds; ++i) {
    KVANT_TRY(timed(figures.rollback, [&] { return sequence.rollback(Tokens(8)); }));
    for (int j = 0; j < 8; ++j) KVANT_TRY(step(sequence, Tokens(1)));
  }
  return ok();
}

// Two buffers of `bytes` that plain copies go between.
struct Buffers {
  static Result<Buffers> create(Bytes bytes) {
    Buffers buffers;
    buffers.from = KVANT_TRY(tensor::Buffer<std::byte>::create(Elements(bytes.value())));
    buffers.to = KVANT_TRY(tensor::Buffer<std::byte>::create(Elements(bytes.value())));
    return buffers;
  }

  // Copies and makes the copy matter to the next one.
  Status copy(Bytes bytes) {
    std::memcpy(to.data(), from.data(), bytes.size());
    from[0] = to[bytes.size() - 1];
    return ok();
  }

  tensor::Buffer<std::byte> from{};
  tensor::Buffer<std::byte> to{};
};

// The first step after a snapshot: what is live of the block, and the rows of the open page.
Status measure_divergence(state::Sequence& sequence, std::int64_t n_rounds, StateFigures& figures) {
  const auto here = KVANT_TRY(sequence.snapshot());
  const state::Plan& plan = sequence.pool()->plan();
  const std::int64_t n_sealed = sequence.position().value() / plan.layout.page_positions.value();
  CopyFigures copy{.position = sequence.position()};
  copy.bytes =
      state::live_bytes(plan, copy.position) - plan.geometry.groups.front().page_bytes * n_sealed;
  auto buffers = KVANT_TRY(Buffers::create(copy.bytes));
  for (std::int64_t i = 0; i < 10 * n_rounds; ++i) {
    KVANT_TRY(timed(copy.engine, [&] { return sequence.prepare(Tokens(1)); }));
    sequence.poison();
    KVANT_TRY(sequence.restore(here));
    KVANT_TRY(timed(copy.plain, [&] { return buffers.copy(copy.bytes); }));
  }
  figures.diverging.push_back(std::move(copy));
  return ok();
}

Status write_file(const state::Snapshot& snapshot, std::span<std::byte> out) {
  auto writer = KVANT_TRY(state::StateFileWriter::create(snapshot, {}));
  return writer.write(out);
}

Status measure_files(state::Sequence& sequence, std::int64_t n_rounds, StateFigures& figures) {
  const auto here = KVANT_TRY(sequence.snapshot());
  CopyFigures write{.position = here.position()};
  CopyFigures load = write;
  const auto sized = KVANT_TRY(state::StateFileWriter::create(here, {}));
  write.bytes = load.bytes = sized.payload_bytes();
  auto buffers = KVANT_TRY(Buffers::create(sized.bytes()));
  auto file = KVANT_TRY(tensor::Buffer<std::byte>::create(Elements(sized.bytes().value())));
  for (std::int64_t i = 0; i < 5 * n_rounds; ++i) {
    KVANT_TRY(timed(write.engine, [&] { return write_file(here, file.span()); }));
    KVANT_TRY(timed(write.plain, [&] { return buffers.copy(write.bytes); }));
    KVANT_TRY(timed(load.engine, [&] { return state::load_state(sequence, file.span(), {}); }));
    KVANT_TRY(timed(load.plain, [&] { return buffers.copy(load.bytes); }));
    KVANT_TRY(sequence.restore(here));
  }
  figures.serialised.push_back(std::move(write));
  figures.loaded.push_back(std::move(load));
  return ok();
}

// Copies, at positions where much or little of a compressor's state is live.
Status measure_copies(std::int64_t n_rounds, StateFigures& figures) {
  const auto pool = KVANT_TRY(make_pool(state::plan_deepseek_v4(
      flash_shape(), {.context = Tokens(8192), .n_sequences = 2, .n_snapshots = 2})));
  auto sequence = KVANT_TRY(state::Sequence::create(pool, Tokens(8192)));
  for (const std::int64_t position : {4096, 4096 + 32, 4096 + 127}) {
    KVANT_TRY(advance_to(sequence, Tokens(position)));
    KVANT_TRY(measure_divergence(sequence, n_rounds, figures));
    KVANT_TRY(measure_files(sequence, n_rounds, figures));
  }
  return ok();
}

Status measure_shifts(std::int64_t n_rounds, StateFigures& figures) {
  for (const Tokens positions : {Tokens(10'000), kPositions}) {
    const auto pool = KVANT_TRY(make_pool(
        state::make_plan(state::lfm2_layout(lfm2_shape()), {.context = positions,
                                                            .n_sequences = 1,
                                                            .n_snapshots = 1,
                                                            .shifts = state::Shifts::kPlanned})));
    auto sequence = KVANT_TRY(state::Sequence::create(pool, positions));
    StateFigures::Shift shift{.positions = positions};
    for (std::int64_t i = 0; i < 5 * n_rounds; ++i) {
      KVANT_TRY(advance_to(sequence, positions));
      KVANT_TRY(timed(shift.seconds, [&] {
        return sequence.shift({.keep = Position(100), .n = Tokens(positions.value() / 2)});
      }));
    }
    figures.shifts.push_back(std::move(shift));
  }
  return ok();
}

constexpr double kMicro = 1e6;

std::string line(const char* name, const Series& seconds, const std::string& about) {
  return fmt::format("{:<11} {:8.2f} us best, {:8.2f} median   {}\n", name,
                     CopyFigures::least(seconds) * kMicro, seconds.median() * kMicro, about);
}

// Rounds are many and short: the best and the median say what they did.
Json::Object seconds_json(const Series& seconds) {
  return {{"best", CopyFigures::least(seconds)},
          {"median", seconds.median()},
          {"n_rounds", seconds.values.size()}};
}

}  // namespace

double CopyFigures::least(const Series& series) {
  return series.values.empty() ? 0.0 : *std::ranges::min_element(series.values);
}

NamedResult<StateFigures> measure_state(std::int64_t n_rounds) {
  StateFigures figures;
  KVANT_TRY(measure_large(n_rounds, figures));
  KVANT_TRY(measure_copies(n_rounds, figures));
  KVANT_TRY(measure_shifts(n_rounds, figures));
  return figures;
}

std::string state_text(const StateFigures& figures) {
  std::string out = fmt::format(
      "state       43 layers in DeepSeek-V4 Flash's shape, {} positions, {} live bytes\n",
      figures.positions.value(), figures.live.value());
  out += line("snapshot", figures.snapshot, "");
  out += line("fork", figures.fork, "");
  out += line("step", figures.step, "prepare and commit of one token");
  out += line("rollback", figures.rollback, "8 positions taken back");
  const auto add = [&](const char* name, const char* what, std::span<const CopyFigures> copies) {
    for (const CopyFigures& copy : copies) {
      out += line(name, copy.engine,
                  fmt::format("{} bytes {} at position {}, {:.2f} x memcpy", copy.bytes.value(),
                              what, copy.position.value(), copy.ratio()));
    }
  };
  add("diverge", "copied", figures.diverging);
  add("serialise", "written to memory", figures.serialised);
  add("load", "checked and loaded", figures.loaded);
  for (const auto& shift : figures.shifts) {
    out += line(
        "shift", shift.seconds,
        fmt::format("half of {} positions dropped, LFM2-1.2B's shape", shift.positions.value()));
  }
  return out;
}

Json::Object state_json(const StateFigures& figures) {
  const auto copies_json = [](std::span<const CopyFigures> copies) {
    Json::Array array;
    for (const CopyFigures& copy : copies) {
      array.emplace_back(Json::Object{{"position", copy.position.value()},
                                      {"bytes", copy.bytes},
                                      {"seconds", seconds_json(copy.engine)},
                                      {"memcpy_seconds", seconds_json(copy.plain)},
                                      {"ratio", copy.ratio()}});
    }
    return array;
  };
  Json::Array shifts;
  for (const auto& shift : figures.shifts) {
    shifts.emplace_back(
        Json::Object{{"positions", shift.positions}, {"seconds", seconds_json(shift.seconds)}});
  }
  return {{"positions", figures.positions},
          {"live_bytes", figures.live},
          {"snapshot_seconds", seconds_json(figures.snapshot)},
          {"fork_seconds", seconds_json(figures.fork)},
          {"step_seconds", seconds_json(figures.step)},
          {"rollback_seconds", seconds_json(figures.rollback)},
          {"diverging", copies_json(figures.diverging)},
          {"serialised", copies_json(figures.serialised)},
          {"loaded", copies_json(figures.loaded)},
          {"shifts", std::move(shifts)}};
}

}  // namespace kvant::app
