#include "kvant/state/contents.h"

#include <algorithm>
#include <utility>

namespace kvant::state {

std::string_view name_of(Lineage lineage) { return lineage == Lineage::kCold ? "cold" : "derived"; }

// How far back versions reach without a gap: older ones are not worth a copy.
BlockAge Contents::block_age() const {
  Tokens reach = depth;
  if (!versions.empty()) {
    const auto n = static_cast<std::int64_t>(versions.size());
    Tokens oldest{0};
    for (std::int64_t back = 1; back <= depth.value(); ++back) {
      if (versions[static_cast<std::size_t>((age - back) % n)] == age - back) {
        oldest = Tokens(back);
      }
    }
    reach = oldest;
  }
  return {.position = position, .depth = reach, .age = age};
}

void Contents::clear(PoolRef initial_block) noexcept {
  for (PageTable& table : tables) table.clear();
  forget(std::move(initial_block));
}

void Contents::forget(PoolRef initial_block) noexcept {
  position = Position(0);
  depth = Tokens(0);
  age = 0;
  lineage = Lineage::kCold;
  std::ranges::fill(versions, -1);
  if (!versions.empty()) versions.front() = 0;
  runs.assign(1, PositionRun{});
  block = std::move(initial_block);
}

void Contents::assign(const Contents& other) noexcept {
  position = other.position;
  depth = other.depth;
  age = other.age;
  lineage = other.lineage;
  for (std::size_t i = 0; i < tables.size(); ++i) tables[i].assign(other.tables[i]);
  versions.assign(other.versions.begin(), other.versions.end());
  runs.assign(other.runs.begin(), other.runs.end());
  block = other.block;
}

Contents Contents::copy() const {
  Contents copy;
  copy.tables.reserve(tables.size());
  for (const PageTable& table : tables) copy.tables.push_back(table.copy());
  copy.position = position;
  copy.depth = depth;
  copy.age = age;
  copy.lineage = lineage;
  copy.versions = versions;
  copy.runs = runs;
  copy.block = block;
  return copy;
}

}  // namespace kvant::state
