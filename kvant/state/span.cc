#include "kvant/state/span.h"

#include <algorithm>
#include <limits>
#include <new>

#include "kvant/base/checked.h"
#include "kvant/state/sequence.h"

namespace kvant::state {
namespace {

const ComponentSpec* find(const LayerSpec& layer, ComponentKind kind, Discipline discipline) {
  for (const ComponentSpec& spec : layer.components) {
    if (spec.kind == kind && spec.discipline == discipline) return &spec;
  }
  return nullptr;
}

RowSpan rows_of(const LayerSpec& layer, ComponentKind kind, Position start, Position end) {
  const ComponentSpec* spec = find(layer, kind, Discipline::kAppend);
  if (spec == nullptr) return {};
  const std::int64_t before = start.value() / spec->ratio;
  const std::int64_t after = end.value() / spec->ratio;
  return {.write_start = before, .count = after - before, .valid_after = after};
}

LayerSpan plan_layer(const LayerSpec& layer, Position start, Position end) {
  LayerSpan span;
  if (const auto* ring = find(layer, ComponentKind::kWindowKv, Discipline::kRing)) {
    const std::int64_t n = (end - start).value();
    const std::int64_t window = ring->window.value();
    span.window_write_count = std::min(n, window);
    span.window_source_start = n - span.window_write_count;
    span.window_write_start = Slot((end.value() - span.window_write_count) % window);
    span.window_valid_after = std::min(end.value(), window);
  }
  span.compressed = rows_of(layer, ComponentKind::kCompressedKv, start, end);
  span.indexer = rows_of(layer, ComponentKind::kIndexerKv, start, end);
  return span;
}

std::optional<std::int64_t> only_row(const RowSpan& rows) {
  if (rows.count == 0) return std::nullopt;
  return rows.write_start;
}

}  // namespace

StepState step_state_of(const Sequence& sequence) {
  return {.next = sequence.position(),
          .capacity = sequence.capacity(),
          .poisoned = sequence.poisoned()};
}

Result<Span> plan_span(const Layout& layout, const StepState& state, Tokens n) {
  if (state.poisoned) return Error{.code = ErrorCode::kPoisoned};
  if (n.value() < 1) return Error{.code = ErrorCode::kEmptyPrefill};
  const auto end = checked_add(state.next.value(), n.value());
  if (!end || *end > state.capacity.value()) {
    return Error{.code = ErrorCode::kContextBound,
                 .actual = end ? static_cast<std::uint64_t>(*end)
                               : std::numeric_limits<std::uint64_t>::max(),
                 .expected = static_cast<std::uint64_t>(state.capacity.value())};
  }
  try {
    Span span{.start = state.next, .count = n, .layers = {}};
    span.layers.reserve(layout.layers.size());
    for (const LayerSpec& layer : layout.layers) {
      span.layers.push_back(plan_layer(layer, state.next, Position(*end)));
      span.layers.back().layer = LayerIndex(static_cast<std::int64_t>(span.layers.size()) - 1);
    }
    return span;
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

Result<Span> plan_span_from_start(const Layout& layout, const StepState& state, Tokens n) {
  if (state.next != Position(0)) {
    return Error{.code = ErrorCode::kPrefillNotEmpty,
                 .actual = static_cast<std::uint64_t>(state.next.value())};
  }
  return plan_span(layout, state, n);
}

Result<NextStep> plan_next_step(const Layout& layout, const StepState& state) {
  if (state.poisoned) return Error{.code = ErrorCode::kPoisoned};
  if (state.next - Position(0) >= state.capacity) {
    return Error{.code = ErrorCode::kContextExhausted,
                 .actual = static_cast<std::uint64_t>(state.next.value()),
                 .expected = static_cast<std::uint64_t>(state.capacity.value())};
  }
  const Span span = KVANT_TRY(plan_span(layout, state, Tokens(1)));
  try {
    NextStep step{.position = state.next, .layers = {}};
    step.layers.reserve(span.layers.size());
    for (const LayerSpan& rows : span.layers) {
      LayerStep layer{.layer = rows.layer,
                      .window_write_slot = {},
                      .window_valid_after = rows.window_valid_after,
                      .compressed_write_row = only_row(rows.compressed),
                      .compressed_valid_after = rows.compressed.valid_after,
                      .indexer_write_row = only_row(rows.indexer),
                      .indexer_valid_after = rows.indexer.valid_after};
      if (rows.window_write_count > 0) {
        layer.window_write_slot = rows.window_write_start;
        layer.window_start = state.next + Tokens(1 - rows.window_valid_after);
      }
      step.layers.push_back(layer);
    }
    return step;
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

}  // namespace kvant::state
