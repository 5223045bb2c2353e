// Small layouts for the tests of inference state.
#pragma once

#include <limits>

#include "kvant/state/layout.h"

namespace kvant::test {

inline state::ComponentSpec append_spec(ComponentKind kind, codec::Kind codec, std::int64_t heads,
                                        std::int64_t width, std::int64_t ratio = 1) {
  return {.kind = kind,
          .codec = codec,
          .n_heads = Heads(heads),
          .row_width = Elements(width),
          .ratio = ratio};
}

inline state::ComponentSpec recurrent_spec(ComponentKind kind, std::int64_t rows,
                                           std::int64_t width, float initial) {
  return {.kind = kind,
          .discipline = state::Discipline::kRecurrent,
          .n_rows = Rows(rows),
          .width = Elements(width),
          .initial_value = initial};
}

inline state::ComponentSpec windowed_spec(ComponentKind kind, state::Discipline discipline,
                                          std::int64_t window) {
  return {.kind = kind,
          .discipline = discipline,
          .codec = codec::Kind::kF32,
          .n_heads = Heads(2),
          .row_width = Elements(3),
          .window = Tokens(window)};
}

inline state::ComponentSpec ring_spec(ComponentKind kind, codec::Kind codec, std::int64_t window,
                                      std::int64_t width) {
  return {.kind = kind,
          .discipline = state::Discipline::kRing,
          .codec = codec,
          .n_heads = Heads(2),
          .row_width = Elements(width),
          .window = Tokens(window)};
}

// A ring of groups of `group` positions; with `overlap` it holds the group before, too, of which
// the first half of the numbers counts.
inline state::ComponentSpec group_spec(ComponentKind kind, std::int64_t group, bool overlap,
                                       float initial) {
  return {.kind = kind,
          .discipline = state::Discipline::kRing,
          .codec = codec::Kind::kF32,
          .n_heads = Heads(1),
          .row_width = Elements(4),
          .window = Tokens(overlap ? 2 * group : group),
          .group = Tokens(group),
          .overlap_width = Elements(overlap ? 2 : 0),
          .initial_value = initial};
}

// Every discipline there is; ratio 2, so pages must be even. The window of the windowed layer is 5.
inline state::Layout full_layout(std::int64_t page_positions) {
  using enum ComponentKind;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  state::Layout layout;
  layout.page_positions = Tokens(page_positions);
  layout.layers = {
      {{append_spec(kKeys, codec::Kind::kF32, 2, 3),
        append_spec(kValues, codec::Kind::kF16, 2, 1)}},
      {{ring_spec(kWindowKv, codec::Kind::kBf16, 3, 3),
        append_spec(kCompressedKv, codec::Kind::kF32, 1, 2, 2),
        group_spec(kMainKvState, 2, true, 0.0F), group_spec(kMainScoreState, 2, true, -kInfinity)}},
      {{recurrent_spec(kConvState, 2, 1, 0.0F)}},
      {{windowed_spec(kKeys, state::Discipline::kWindowedAppend, 5),
        windowed_spec(kValues, state::Discipline::kWindowedAppend, 5)}},
      {{recurrent_spec(kRecurrentState, 1, 3, -kInfinity),
        group_spec(kIndexerKvState, 4, false, 0.0F)}},
  };
  return layout;
}

// What can shift: rows of two groups, one with a window, and recurrent components.
inline state::Layout shift_layout(std::int64_t page_positions, std::int64_t window) {
  using enum ComponentKind;
  state::Layout layout;
  layout.page_positions = Tokens(page_positions);
  layout.layers = {
      {{append_spec(kKeys, codec::Kind::kF32, 2, 3),
        append_spec(kValues, codec::Kind::kF32, 1, 2)}},
      {{recurrent_spec(kConvState, 2, 1, 0.0F)}},
      {},
      {{windowed_spec(kKeys, state::Discipline::kWindowedAppend, window)}},
  };
  return layout;
}

// Two page groups, two ratios in one of them, two recurrent components, one layer with nothing.
inline state::Layout mixed_layout(std::int64_t page_positions) {
  using enum ComponentKind;
  state::Layout layout;
  layout.page_positions = Tokens(page_positions);
  layout.layers = {
      {{append_spec(kKeys, codec::Kind::kF32, 2, 3),
        append_spec(kValues, codec::Kind::kF16, 2, 1)}},
      {{recurrent_spec(kConvState, 2, 1, 0.0F)}},
      {},
      {{append_spec(kCompressedKv, codec::Kind::kF32, 1, 2, 2),
        recurrent_spec(kMainScoreState, 1, 3, -std::numeric_limits<float>::infinity())}},
  };
  return layout;
}

}  // namespace kvant::test
