// A brute-force model of a sequence, written without looking at pages: what is remembered is a list
// of stamps, one a token, and every number that may be read follows from the list.
//
//   row r of an append component of ratio r: a function of the stamp that completed it
//   a row of a ring or window: a function of its position's stamp
//   a recurrent block: a fold over all stamps, or its initial value when there are none; stamps
//   that a shift dropped stay in the fold
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "kvant/state/sequence.h"
#include "kvant/tensor/half.h"

namespace kvant::test {

using Stamps = std::vector<std::int64_t>;

// Small integers, exact in every element type.
inline float row_number(std::int64_t stamp, const state::Placed& placed, std::int64_t head,
                        std::int64_t column) {
  const std::int64_t mixed = stamp * 31 + placed.layer.value() * 17 +
                             static_cast<std::int64_t>(placed.spec.kind) * 7 + head * 3 + column;
  return static_cast<float>(mixed % 251);
}

inline float next_block_number(float before, std::int64_t stamp, std::int64_t index) {
  const auto old = std::isfinite(before) ? static_cast<std::int64_t>(before) : 3;
  return static_cast<float>((old * 5 + stamp * 11 + index) % 997);
}

inline float block_number(const Stamps& stamps, const state::Placed& placed, std::int64_t index) {
  float value = placed.spec.initial_value;
  for (const std::int64_t stamp : stamps) value = next_block_number(value, stamp, index);
  return value;
}

inline float load(const std::byte* from, tensor::Dtype dtype) {
  if (dtype == tensor::Dtype::kF32) {
    float value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  return dtype == tensor::Dtype::kF16 ? tensor::f32_from_f16(bits) : tensor::f32_from_bf16(bits);
}

inline void store(std::byte* to, tensor::Dtype dtype, float value) {
  if (dtype == tensor::Dtype::kF32) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  const std::uint16_t bits =
      dtype == tensor::Dtype::kF16 ? tensor::f16_from_f32(value) : tensor::bf16_from_f32(value);
  std::memcpy(to, &bits, sizeof(bits));
}

// Calls each(row, extent, row in page) for the rows of a view in order.
template <class Each>
void for_each_row(const tensor::PagedRows& view, const Each& each) {
  std::int64_t row = 0;
  for (const tensor::Extent& extent : view.extents) {
    for (std::int64_t i = 0; i < extent.n_rows; ++i) each(row++, extent, extent.first_row + i);
  }
}

inline std::int64_t count_rows(const tensor::PagedRows& view) {
  std::int64_t n = 0;
  for (const tensor::Extent& extent : view.extents) n += extent.n_rows;
  return n;
}

// What a sequence is supposed to remember.
struct Remembered {
  Stamps stamps = {};                     // one a position
  std::vector<std::int64_t> stored = {};  // the position that each was stored for
  Stamps folded = {};                     // all that recurrent components have seen
  std::vector<char> reachable = {1};      // [n folded + 1] whether a rollback may stop there
  std::int64_t depth = 0;                 // positions that may be taken back
  bool derived = false;
  std::int64_t open = 0;  // positions of the open step
  Stamps open_stamps = {};
  bool poisoned = false;

  std::int64_t position() const { return static_cast<std::int64_t>(stamps.size()); }
};

// Adds a committed step to what is remembered, stored where it stands.
inline void remember(Remembered& remembered, const Stamps& stamps) {
  for (const std::int64_t stamp : stamps) {
    remembered.stored.push_back(remembered.position());
    remembered.stamps.push_back(stamp);
    remembered.folded.push_back(stamp);
    remembered.reachable.push_back(0);
  }
  remembered.reachable.back() = 1;
}

inline Remembered remembered_of(const Stamps& stamps) {
  Remembered remembered;
  remember(remembered, stamps);
  return remembered;
}

// The first row of a ring or window that a query at `position` may still read.
inline std::int64_t first_live_row(const state::ComponentSpec& spec, std::int64_t position) {
  const std::int64_t window = spec.window.value();
  if (window == 0) return 0;
  if (spec.group == Tokens(0)) return std::max<std::int64_t>(position - window + 1, 0);
  std::int64_t row = position;
  while (row % spec.group.value() != 0) --row;  // the beginning of the open group
  return std::max<std::int64_t>(row - (window - spec.group.value()), 0);
}

// Numbers of a row that may still be read at `position`.
inline std::int64_t live_width(const state::ComponentSpec& spec, std::int64_t row,
                               std::int64_t position) {
  const bool old =
      spec.group > Tokens(0) && row / spec.group.value() < position / spec.group.value();
  return old && spec.overlap_width > Elements(0) ? spec.overlap_width.value()
                                                 : spec.row_width.value();
}

// The first difference between a view and what is remembered, as text; empty if there is none.
// `position` is where the next query stands, `stamps` all that the view may hold.
inline std::string compare_rows(const tensor::PagedRows& view, const state::Placed& placed,
                                const Stamps& stamps, std::int64_t position) {
  const state::ComponentSpec& spec = placed.spec;
  const std::int64_t first = first_live_row(spec, position);
  const bool ring = spec.discipline == state::Discipline::kRing;
  const auto all = (ring ? position : static_cast<std::int64_t>(stamps.size())) / spec.ratio;
  if (ring ? view.first_row != first : view.first_row > first) {
    return "first row " + std::to_string(view.first_row) + ", expected " + std::to_string(first);
  }
  if (count_rows(view) != all - view.first_row) {
    return "rows " + std::to_string(count_rows(view)) + ", expected " +
           std::to_string(all - view.first_row);
  }
  std::string difference;
  for_each_row(view, [&](std::int64_t i, const tensor::Extent& extent, std::int64_t in_page) {
    const std::int64_t row = view.first_row + i;
    if (row < first) return;  // an old page of a window
    const std::int64_t stamp = stamps[static_cast<std::size_t>((row + 1) * spec.ratio - 1)];
    for (std::int64_t head = 0; head < view.n_heads; ++head) {
      const std::byte* numbers = view.row_at(extent, head, in_page);
      for (std::int64_t column = 0; column < live_width(spec, row, position); ++column) {
        const float found = load(numbers + column * tensor::bytes_of(view.dtype), view.dtype);
        if (found != row_number(stamp, placed, head, column)) {
          difference = "row " + std::to_string(row) + " holds " + std::to_string(found);
        }
      }
    }
  });
  return difference;
}

// Whether the extents say for which position each row was stored.
inline std::string compare_deltas(const tensor::PagedRows& view, const Remembered& expected) {
  std::string difference;
  for_each_row(view, [&](std::int64_t i, const tensor::Extent& extent, std::int64_t) {
    const std::int64_t row = view.first_row + i;
    const std::int64_t stored = row - extent.position_delta;
    if (stored != expected.stored[static_cast<std::size_t>(row)]) {
      difference = "row " + std::to_string(row) + " stored for " + std::to_string(stored);
    }
  });
  return difference;
}

inline std::string compare_block(std::span<const float> block, const state::Placed& placed,
                                 const Stamps& stamps) {
  for (std::size_t i = 0; i < block.size(); ++i) {
    const float expected = block_number(stamps, placed, static_cast<std::int64_t>(i));
    if (block[i] != expected) {
      return "block number " + std::to_string(i) + " is " + std::to_string(block[i]) +
             ", expected " + std::to_string(expected);
    }
  }
  return {};
}

inline bool is_recurrent(const state::Placed& placed) {
  return placed.spec.discipline == state::Discipline::kRecurrent;
}

inline std::string compare_component(const state::Sequence& sequence, const state::Placed& placed,
                                     const Remembered& expected) {
  const auto kind = placed.spec.kind;
  if (is_recurrent(placed)) {
    return compare_block(sequence.read_recurrent(placed.layer, kind).value(), placed,
                         expected.folded);
  }
  const auto view = sequence.read_rows(placed.layer, kind).value();
  std::string difference = compare_rows(view, placed, expected.stamps, expected.position());
  if (difference.empty() && placed.group >= 0 && placed.spec.ratio == 1) {
    difference = compare_deltas(view, expected);
  }
  return difference;
}

// Compares everything that can be read of a sequence without an open step.
inline std::string compare_all(const state::Sequence& sequence, const Remembered& expected) {
  if (sequence.poisoned() != expected.poisoned) return "poisoned differs";
  if (sequence.position().value() != expected.position()) {
    return "position " + std::to_string(sequence.position().value());
  }
  if (sequence.step_open() != (expected.open > 0)) return "step differs";
  if ((sequence.lineage() == state::Lineage::kDerived) != expected.derived) return "lineage";
  for (const state::Placed& placed : sequence.pool()->geometry().components) {
    const auto kind = placed.spec.kind;
    if (expected.poisoned || expected.open > 0) {
      const auto code = expected.poisoned ? ErrorCode::kPoisoned : ErrorCode::kStepOpen;
      const auto error = is_recurrent(placed) ? sequence.read_recurrent(placed.layer, kind).error()
                                              : sequence.read_rows(placed.layer, kind).error();
      if (error.code != code) return "read is not refused";
      continue;
    }
    const std::string difference = compare_component(sequence, placed, expected);
    if (!difference.empty()) return std::string(name_of(kind)) + ": " + difference;
  }
  return {};
}

// Writes row numbers into the rows of a view that belong to positions behind `begin`.
inline void write_rows(const tensor::PagedRows& view, const state::Placed& placed,
                       const Stamps& all, std::int64_t begin) {
  for_each_row(view, [&](std::int64_t i, const tensor::Extent& extent, std::int64_t at) {
    const std::int64_t row = view.first_row + i;
    if (row < begin / placed.spec.ratio) return;
    const std::int64_t stamp = all[static_cast<std::size_t>((row + 1) * placed.spec.ratio - 1)];
    for (std::int64_t head = 0; head < view.n_heads; ++head) {
      for (std::int64_t column = 0; column < view.row_width; ++column) {
        store(view.row_at(extent, head, at) + column * tensor::bytes_of(view.dtype), view.dtype,
              row_number(stamp, placed, head, column));
      }
    }
  });
}

enum class Versions { kLast, kAll };

// Folds the step's stamps into a recurrent component, or into each version of it.
inline void write_versions(state::Sequence& sequence, const state::Placed& placed,
                           const Remembered& before, Versions versions) {
  const auto n = static_cast<std::int64_t>(before.open_stamps.size());
  const std::int64_t n_written = versions == Versions::kAll ? sequence.n_versions().value() : 1;
  for (std::int64_t done = n - n_written + 1; done <= n; ++done) {
    Stamps folded = before.folded;
    folded.insert(folded.end(), before.open_stamps.begin(), before.open_stamps.begin() + done);
    const auto block =
        sequence.recurrent_version(placed.layer, placed.spec.kind, Tokens(done)).value();
    for (std::size_t i = 0; i < block.size(); ++i) {
      block[i] = block_number(folded, placed, static_cast<std::int64_t>(i));
    }
  }
  if (versions == Versions::kAll) sequence.versions_written();
}

// What the model room does in a step: writes the rows that the stamps complete and folds them into
// the blocks. Returns what was wrong with what it found there, if anything.
inline std::string write_step(state::Sequence& sequence, const Remembered& before,
                              Versions versions) {
  Stamps all = before.stamps;
  all.insert(all.end(), before.open_stamps.begin(), before.open_stamps.end());
  const std::int64_t position = before.position();
  for (const state::Placed& placed : sequence.pool()->geometry().components) {
    std::string difference;
    if (is_recurrent(placed)) {
      const auto block = sequence.recurrent(placed.layer, placed.spec.kind).value();
      difference = compare_block(block, placed, before.folded);
      write_versions(sequence, placed, before, versions);
    } else if (placed.group < 0) {
      const auto held = sequence.rows(placed.layer, placed.spec.kind).value();
      difference = compare_rows(held, placed, before.stamps, position);
      const auto slots = sequence.ring_slots(placed.layer, placed.spec.kind).value();
      write_rows(slots, placed, all, position);
    } else {
      const auto view = sequence.rows(placed.layer, placed.spec.kind).value();
      write_rows(view, placed, all, position);
      difference = compare_rows(view, placed, all, position);
    }
    if (!difference.empty()) return "in the step: " + difference;
  }
  return {};
}

inline std::string write_step(state::Sequence& sequence, const Stamps& before,
                              const Stamps& stamps) {
  Remembered remembered = remembered_of(before);
  remembered.open_stamps = stamps;
  return write_step(sequence, remembered, Versions::kLast);
}

// Ruins what an open step may write, as a model that fails in the middle would.
inline void scribble(state::Sequence& sequence, std::int64_t n_before) {
  for (const state::Placed& placed : sequence.pool()->geometry().components) {
    if (!is_recurrent(placed)) {
      const auto kind = placed.spec.kind;
      const auto view = placed.group >= 0 ? sequence.rows(placed.layer, kind).value()
                                          : sequence.ring_slots(placed.layer, kind).value();
      for_each_row(view, [&](std::int64_t i, const tensor::Extent& extent, std::int64_t at) {
        if (view.first_row + i < n_before / placed.spec.ratio) return;
        for (std::int64_t head = 0; head < view.n_heads; ++head) {
          std::memset(view.row_at(extent, head, at), 0xA5,
                      static_cast<std::size_t>(view.row_bytes));
        }
      });
    } else {
      const auto block = sequence.recurrent(placed.layer, placed.spec.kind).value();
      std::ranges::fill(block, -777.0F);
    }
  }
}

}  // namespace kvant::test
