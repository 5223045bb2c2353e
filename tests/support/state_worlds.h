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
