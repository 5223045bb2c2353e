// What a step will do to each layer's rows, as slots and counts: pure arithmetic, no state changes.
//
// A step of n positions from p writes, into a layer's ring of W rows (drawn for W = 4, p = 3,
// n = 6), only the last min(n, W) of its positions; and it completes the rows of every group of
// `ratio` positions whose last position is among its own:
//
//   positions of the step      3  4  5  6  7  8       source_start 2: the ring keeps 5, 6, 7, 8
//   slot in the ring                 1  2  3  0       write_start 1, wrapping at W
//   rows of ratio 4            #           #          rows 0 and 1: write_start 0, count 2
//
// The model computes attention over the positions of a step itself; the ring is what later steps
// find. A row that a position completes is visible to that very position.
//
// Invariants
//   1. Planning spans one by one or position by position leaves the same rows at the same slots.
//   2. write_start + count == valid_after for compressed and indexer rows.
//
// Source: the span planner of hf2q 0.1.4, whose field names these are.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/state/layout.h"

namespace kvant::state {

class Sequence;

// Where a sequence stands.
struct StepState {
  Position next{0};
  Tokens capacity{0};
  bool poisoned = false;
};

StepState step_state_of(const Sequence& sequence);

// The rows of one append component.
struct RowSpan {
  std::int64_t write_start = 0;  // first row that the step completes, if it completes any
  std::int64_t count = 0;
  std::int64_t valid_after = 0;  // rows [0, valid_after) are readable after the step

  friend bool operator==(const RowSpan&, const RowSpan&) = default;
};

// A layer's part of a span. Zeros where the layer has no such component.
struct LayerSpan {
  LayerIndex layer;
  std::int64_t window_source_start = 0;  // first position of the step, counted from its start, that
                                         // the ring keeps
  Slot window_write_start{0};            // its slot; the others follow, wrapping at the window
  std::int64_t window_write_count = 0;
  std::int64_t window_valid_after = 0;  // rows of the ring that hold a position
  RowSpan compressed{};                 // kCompressedKv
  RowSpan indexer{};                    // kIndexerKv

  friend bool operator==(const LayerSpan&, const LayerSpan&) = default;
};

struct Span {
  Position start{0};
  Tokens count{0};
  std::vector<LayerSpan> layers;  // [n_layers]
};

// A span of n positions from where the sequence stands.
// Requires: a valid layout.
// Errors, in this order: kPoisoned; kEmptyPrefill for n < 1; kContextBound{actual: end (UINT64_MAX
// when it overflows), expected: capacity}; kOutOfMemory.
Result<Span> plan_span(const Layout& layout, const StepState& state, Tokens n);

// The same for a sequence that must be empty.
// Errors: kPrefillNotEmpty{actual: next} first, then those of plan_span.
Result<Span> plan_span_from_start(const Layout& layout, const StepState& state, Tokens n);

// A layer's part of a step of one position.
struct LayerStep {
  LayerIndex layer;
  std::optional<Slot> window_write_slot;  // none: the layer has no ring
  std::int64_t window_valid_after = 0;
  Position window_start{0};  // the oldest position that the ring holds after the step
  std::optional<std::int64_t> compressed_write_row;  // none: no group ends here
  std::int64_t compressed_valid_after = 0;
  std::optional<std::int64_t> indexer_write_row;
  std::int64_t indexer_valid_after = 0;

  friend bool operator==(const LayerStep&, const LayerStep&) = default;
};

struct NextStep {
  Position position{0};
  std::vector<LayerStep> layers;  // [n_layers]
};

// The step of the next position.
// Requires: a valid layout.
// Errors, in this order: kPoisoned; kContextExhausted{actual: next, expected: capacity};
// kOutOfMemory.
Result<NextStep> plan_next_step(const Layout& layout, const StepState& state);

}  // namespace kvant::state
