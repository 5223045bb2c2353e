#include "kvant/state/layout.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace kvant::state {
namespace {

bool is_layer_memory(ComponentKind kind) {
  return kind >= ComponentKind::kKeys && kind <= ComponentKind::kRecurrentState;
}

// One number of a declaration and the range it must lie in.
struct Bound {
  std::int64_t actual;
  std::int64_t least;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

Error invalid(std::int64_t actual, std::int64_t expected) {
  return Error{.code = ErrorCode::kLayoutInvalid,
               .actual = static_cast<std::uint64_t>(actual),
               .expected = static_cast<std::uint64_t>(expected)};
}

Status check_bounds(std::initializer_list<Bound> bounds) {
  for (const Bound& bound : bounds) {
    if (bound.actual < bound.least) return invalid(bound.actual, bound.least);
    if (bound.actual > bound.most) return invalid(bound.actual, bound.most);
  }
  return ok();
}

Status validate_ring(const ComponentSpec& spec) {
  const std::int64_t group = spec.group.value();
  const std::int64_t overlap = spec.overlap_width.value();
  KVANT_TRY(check_bounds(
      {{group, 0, spec.window.value()}, {overlap, 0, group == 0 ? 0 : spec.row_width.value()}}));
  if (group > 0 && spec.window.value() % group != 0) return invalid(group, spec.window.value());
  const bool has_bits = std::bit_cast<std::uint32_t>(spec.initial_value) != 0;
  if (std::isnan(spec.initial_value) || (has_bits && spec.codec != codec::Kind::kF32)) {
    return invalid(0, 0);
  }
  return ok();
}

Status validate_component(const ComponentSpec& spec, Tokens page_positions) {
  if (!is_layer_memory(spec.kind)) return invalid(static_cast<std::int64_t>(spec.kind), 0);
  const Bound heads{.actual = spec.n_heads.value(), .least = 1};
  const Bound row_width{.actual = spec.row_width.value(), .least = 1};
  const std::int64_t window = spec.window.value();
  switch (spec.discipline) {
    case Discipline::kAppend:
      KVANT_TRY(check_bounds({heads, row_width, {spec.ratio, 1}, {window, 0, 0}}));
      if (page_positions.value() % spec.ratio != 0) {
        return invalid(spec.ratio, page_positions.value());
      }
      return ok();
    case Discipline::kWindowedAppend:
      return check_bounds({heads, row_width, {spec.ratio, 1, 1}, {window, 1}});
    case Discipline::kRing:
      KVANT_TRY(check_bounds(
          {heads, row_width, {spec.ratio, 1, 1}, {window, 1, Layout::kMaxRingPositions}}));
      return validate_ring(spec);
    case Discipline::kRecurrent:
      KVANT_TRY(check_bounds({{spec.n_rows.value(), 1}, {spec.width.value(), 1}, {window, 0, 0}}));
      if (std::isnan(spec.initial_value)) return invalid(0, 0);
      return ok();
  }
  return Error{.code = ErrorCode::kUnsupported};
}

}  // namespace

std::string_view name_of(Discipline discipline) {
  switch (discipline) {
    case Discipline::kAppend:
      return "append";
    case Discipline::kWindowedAppend:
      return "windowed_append";
    case Discipline::kRing:
      return "ring";
    case Discipline::kRecurrent:
      return "recurrent";
  }
  return "unknown";
}

// Compared by bits, as everything that identifies a state: 0 and -0 differ.
bool operator==(const ComponentSpec& a, const ComponentSpec& b) {
  return a.kind == b.kind && a.discipline == b.discipline && a.codec == b.codec &&
         a.n_heads == b.n_heads && a.row_width == b.row_width && a.ratio == b.ratio &&
         a.window == b.window && a.group == b.group && a.overlap_width == b.overlap_width &&
         a.n_rows == b.n_rows && a.width == b.width &&
         a.bound_to_positions == b.bound_to_positions &&
         std::bit_cast<std::uint32_t>(a.initial_value) ==
             std::bit_cast<std::uint32_t>(b.initial_value);
}

Status Layout::validate() const {
  if (layers.empty()) return Error{.code = ErrorCode::kLayoutInvalid, .expected = 1};
  if (page_positions.value() < 1 || page_positions.value() > kMaxPagePositions) {
    return Error{.code = ErrorCode::kLayoutInvalid,
                 .actual = static_cast<std::uint64_t>(page_positions.value()),
                 .expected = kMaxPagePositions};
  }
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    std::uint32_t seen = 0;  // one bit a kind
    for (const ComponentSpec& spec : layers[layer].components) {
      Status status = validate_component(spec, page_positions);
      const std::uint32_t bit = 1u << (static_cast<unsigned>(spec.kind) & 31u);
      if (status && (seen & bit) != 0) {
        status = Error{.code = ErrorCode::kLayoutInvalid, .actual = 2, .expected = 1};
      }
      seen |= bit;
      if (!status) {
        Error error = status.error();
        error.layer = static_cast<std::int32_t>(layer);
        error.component = spec.kind;
        return error;
      }
    }
  }
  return ok();
}

Error first_difference(ErrorCode code, const Layout& a, const Layout& b) {
  if (a.page_positions != b.page_positions || a.layers.size() != b.layers.size()) {
    return Error{.code = code, .actual = a.layers.size(), .expected = b.layers.size()};
  }
  for (std::size_t layer = 0; layer < a.layers.size(); ++layer) {
    const auto& left = a.layers[layer].components;
    const auto& right = b.layers[layer].components;
    for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
      if (i < left.size() && i < right.size() && left[i] == right[i]) continue;
      return Error{.code = code,
                   .component = i < right.size() ? right[i].kind : left[i].kind,
                   .layer = static_cast<std::int32_t>(layer)};
    }
  }
  return Error{.code = code};
}

}  // namespace kvant::state
