// A brute-force model of a sequence, written without looking at pages: what is remembered is a list
// of stamps, one a token, and every number that may be read follows from the list.
//
//   row r of an append component of ratio r: a function of the stamp that completed it
//   a recurrent block: a fold over all stamps, or its initial value when there are none
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
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
  Stamps stamps;
  std::int64_t open = 0;  // positions of the open step
  Stamps open_stamps;
  bool poisoned = false;
};

// The first difference between a view and the stamps, as text; empty if there is none.
inline std::string compare_rows(const tensor::PagedRows& view, const state::Placed& placed,
                                const Stamps& stamps) {
  const auto n = static_cast<std::int64_t>(stamps.size()) / placed.spec.ratio;
  if (count_rows(view) != n) {
    return "rows " + std::to_string(count_rows(view)) + ", expected " + std::to_string(n);
  }
  std::string difference;
  for_each_row(view, [&](std::int64_t row, const tensor::Extent& extent, std::int64_t in_page) {
    const std::int64_t stamp = stamps[static_cast<std::size_t>((row + 1) * placed.spec.ratio - 1)];
    for (std::int64_t head = 0; head < view.n_heads; ++head) {
      const std::byte* numbers = view.row_at(extent, head, in_page);
      for (std::int64_t column = 0; column < view.row_width; ++column) {
        const float found = load(numbers + column * tensor::bytes_of(view.dtype), view.dtype);
        if (found != row_number(stamp, placed, head, column)) {
          difference = "row " + std::to_string(row) + " holds " + std::to_string(found);
        }
      }
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

// Compares everything that can be read of a sequence without an open step.
inline std::string compare_all(const state::Sequence& sequence, const Remembered& expected) {
  if (sequence.poisoned() != expected.poisoned) return "poisoned differs";
  if (sequence.position().value() != static_cast<std::int64_t>(expected.stamps.size())) {
    return "position " + std::to_string(sequence.position().value());
  }
  if (sequence.step_open() != (expected.open > 0)) return "step differs";
  for (const state::Placed& placed : sequence.pool()->geometry().components) {
    const auto kind = placed.spec.kind;
    const bool in_page = placed.group >= 0;
    if (expected.poisoned || expected.open > 0) {
      const auto code = expected.poisoned ? ErrorCode::kPoisoned : ErrorCode::kStepOpen;
      const auto error = in_page ? sequence.read_rows(placed.layer, kind).error()
                                 : sequence.read_recurrent(placed.layer, kind).error();
      if (error.code != code) return "read is not refused";
      continue;
    }
    std::string difference;
    if (in_page) {
      difference =
          compare_rows(sequence.read_rows(placed.layer, kind).value(), placed, expected.stamps);
    } else {
      difference = compare_block(sequence.read_recurrent(placed.layer, kind).value(), placed,
                                 expected.stamps);
    }
    if (!difference.empty()) return std::string(name_of(kind)) + ": " + difference;
  }
  return {};
}

// What the model room does in a step: writes the rows that the stamps complete and folds them into
// the blocks. Returns what was wrong with what it found there, if anything.
inline std::string write_step(state::Sequence& sequence, const Stamps& before,
                              const Stamps& stamps) {
  Stamps all = before;
  all.insert(all.end(), stamps.begin(), stamps.end());
  const auto n_before = static_cast<std::int64_t>(before.size());
  for (const state::Placed& placed : sequence.pool()->geometry().components) {
    if (placed.group >= 0) {
      const auto view = sequence.rows(placed.layer, placed.spec.kind).value();
      for_each_row(view, [&](std::int64_t row, const tensor::Extent& extent, std::int64_t at) {
        if (row < n_before / placed.spec.ratio) return;
        const std::int64_t stamp = all[static_cast<std::size_t>((row + 1) * placed.spec.ratio - 1)];
        for (std::int64_t head = 0; head < view.n_heads; ++head) {
          for (std::int64_t column = 0; column < view.row_width; ++column) {
            store(view.row_at(extent, head, at) + column * tensor::bytes_of(view.dtype), view.dtype,
                  row_number(stamp, placed, head, column));
          }
        }
      });
      const std::string difference = compare_rows(view, placed, all);
      if (!difference.empty()) return "in the step: " + difference;
    } else {
      const auto block = sequence.recurrent(placed.layer, placed.spec.kind).value();
      const std::string difference = compare_block(block, placed, before);
      if (!difference.empty()) return "before the step: " + difference;
      for (std::size_t i = 0; i < block.size(); ++i) {
        for (const std::int64_t stamp : stamps) {
          block[i] = next_block_number(block[i], stamp, static_cast<std::int64_t>(i));
        }
      }
    }
  }
  return {};
}

// Ruins what an open step may write, as a model that fails in the middle would.
inline void scribble(state::Sequence& sequence, std::int64_t n_before) {
  for (const state::Placed& placed : sequence.pool()->geometry().components) {
    if (placed.group >= 0) {
      const auto view = sequence.rows(placed.layer, placed.spec.kind).value();
      for_each_row(view, [&](std::int64_t row, const tensor::Extent& extent, std::int64_t at) {
        if (row < n_before / placed.spec.ratio) return;
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
