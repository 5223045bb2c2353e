// What a sequence remembers at a position, as references: the part of a sequence that a snapshot
// shares.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kvant/base/units.h"
#include "kvant/state/live.h"
#include "kvant/state/page_table.h"
#include "kvant/state/pool.h"

namespace kvant::state {

// Whether a state is defined by the model and token ids alone.
enum class Lineage : std::uint8_t {
  kCold = 0,  // the bits of a run from position 0 over the tokens
  kDerived =
      1,  // shifted, adapter changed, embeddings fed in, imported: never passes for a cold one
};

std::string_view name_of(Lineage lineage);

// Positions from `first` up to the next run's are stored with `delta`: the key of position p was
// rotated for position p - delta.
struct PositionRun {
  Position first{0};
  std::int64_t delta = 0;

  friend bool operator==(const PositionRun&, const PositionRun&) = default;
};

// Calls each(delta) once for each position delta of a sequence, that of new keys first.
// Requires: runs of Contents.
template <class Each>
void for_each_delta(std::span<const PositionRun> runs, const Each& each) {
  each(runs.back().delta);
  for (std::size_t i = 0; i + 1 < runs.size(); ++i) {
    const auto later = runs.subspan(i + 1);
    if (std::ranges::find(later, runs[i].delta, &PositionRun::delta) == later.end()) {
      each(runs[i].delta);
    }
  }
}

// Invariants
//   1. tables[g].end() == position for each group.
//   2. runs begins with position 0; neighbours have different deltas.
//   3. versions[s] is the age whose value version s of every recurrent component holds, or -1.
struct Contents {
  Position position{0};
  Tokens depth{0};       // positions that a rollback may take back, as far as rows go
  std::int64_t age = 0;  // position and all positions ever dropped by shifts
  Lineage lineage = Lineage::kCold;
  std::vector<PageTable> tables{};       // [n_groups]
  std::vector<std::int64_t> versions{};  // [max_rollback + 1]; empty without recurrent components
  std::vector<PositionRun> runs{};
  PoolRef block{};

  BlockAge block_age() const;
  // Empty; `initial_block` holds the values before the first token. Keeps the capacity of lists.
  void clear(PoolRef initial_block) noexcept;
  // The same for everything but the tables.
  void forget(PoolRef initial_block) noexcept;
  // Becomes equal to `other`. Requires: room in the lists.
  void assign(const Contents& other) noexcept;
  // Throws std::bad_alloc.
  Contents copy() const;
};

// The most cuts of a sequence's timeline that shifts may leave.
inline constexpr std::int64_t kMaxRuns = PageTable::kSpareExtents;

}  // namespace kvant::state
