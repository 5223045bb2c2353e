#include "kvant/state/geometry.h"

#include <algorithm>
#include <limits>
#include <new>

#include "kvant/base/checked.h"

namespace kvant::state {
namespace {

constexpr std::int64_t kAlignment = Geometry::kAlignment;

// The end of `bytes` more bytes at the next aligned offset, and that offset; none on overflow.
struct Span {
  std::int64_t offset;
  std::int64_t end;
};

std::optional<Span> append_aligned(std::int64_t begin, std::int64_t bytes) {
  const auto raised = checked_add<std::int64_t>(begin, kAlignment - 1);
  if (!raised) return std::nullopt;
  const std::int64_t offset = *raised / kAlignment * kAlignment;
  const auto end = checked_add(offset, bytes);
  // Room for the padding behind the last component.
  if (!end || *end > std::numeric_limits<std::int64_t>::max() - kAlignment) return std::nullopt;
  return Span{.offset = offset, .end = *end};
}

std::int32_t group_of(Geometry& geometry, const ComponentSpec& spec) {
  const auto found = std::ranges::find_if(geometry.groups, [&](const PageGroup& group) {
    return group.codec == spec.codec && group.window == spec.window;
  });
  const auto index = found - geometry.groups.begin();
  if (found == geometry.groups.end()) {
    geometry.groups.push_back({.codec = spec.codec, .window = spec.window});
  }
  return static_cast<std::int32_t>(index);
}

std::int32_t table_of(PageGroup& group, std::int64_t ratio) {
  const auto found = std::ranges::find(group.ratios, ratio);
  const auto index = found - group.ratios.begin();
  if (found == group.ratios.end()) group.ratios.push_back(ratio);
  return static_cast<std::int32_t>(index);
}

// Sizes the rows of all heads, `rows_a_head` of each. False when the bytes overflow.
bool size_rows(Placed& placed, std::int64_t rows_a_head) {
  const auto row_bytes = codec::row_bytes(placed.spec.codec, placed.spec.row_width);
  if (!row_bytes) return false;
  const auto stride = checked_mul(row_bytes->value(), rows_a_head);
  const auto bytes = stride ? checked_mul(*stride, placed.spec.n_heads.value()) : std::nullopt;
  if (!bytes) return false;
  placed.row_bytes = *row_bytes;
  placed.head_stride = Bytes(*stride);
  placed.bytes = Bytes(*bytes);
  return true;
}

bool size_recurrent(Placed& placed) {
  const auto row_bytes = checked_bytes(placed.spec.width, sizeof(float));
  if (!row_bytes) return false;
  const auto version = checked_mul(row_bytes->value(), placed.spec.n_rows.value());
  const auto bytes = version ? checked_mul(*version, placed.n_slots) : std::nullopt;
  if (!bytes) return false;
  placed.row_bytes = *row_bytes;
  placed.version_bytes = Bytes(*version);
  placed.bytes = Bytes(*bytes);
  return true;
}

std::int32_t ring_of(Geometry& geometry, const Placed& placed) {
  const ComponentSpec& spec = placed.spec;
  const auto found = std::ranges::find_if(geometry.rings, [&](const RingShape& ring) {
    return ring.window == spec.window && ring.group == spec.group;
  });
  const auto index = found - geometry.rings.begin();
  if (found == geometry.rings.end()) {
    geometry.rings.push_back(
        {.window = spec.window, .group = spec.group, .n_slots = placed.n_slots});
  }
  return static_cast<std::int32_t>(index);
}

bool place_in_page(Geometry& geometry, Placed& placed) {
  const ComponentSpec& spec = placed.spec;
  if (!size_rows(placed, geometry.page_positions.value() / spec.ratio)) return false;
  placed.group = group_of(geometry, spec);
  PageGroup& group = geometry.groups[static_cast<std::size_t>(placed.group)];
  const auto span = append_aligned(group.page_bytes.value(), placed.bytes.value());
  if (!span) return false;
  placed.table = table_of(group, spec.ratio);
  placed.offset = Bytes(span->offset);
  group.page_bytes = Bytes(span->end);
  group.members.push_back(geometry.components.size());
  return true;
}

bool place_in_block(Geometry& geometry, Placed& placed) {
  const bool is_ring = placed.spec.discipline == Discipline::kRing;
  const auto slots = checked_add<std::int64_t>(geometry.max_rollback.value(),
                                               is_ring ? placed.spec.window.value() : 1);
  if (!slots) return false;
  placed.n_slots = *slots;
  if (!(is_ring ? size_rows(placed, *slots) : size_recurrent(placed))) return false;
  if (is_ring) {
    placed.table = ring_of(geometry, placed);
  } else {
    geometry.has_recurrent = true;
  }
  const auto span = append_aligned(geometry.block_bytes.value(), placed.bytes.value());
  if (!span) return false;
  placed.offset = Bytes(span->offset);
  geometry.block_bytes = Bytes(span->end);
  return true;
}

bool place(Geometry& geometry, Placed& placed) {
  switch (placed.spec.discipline) {
    case Discipline::kAppend:
    case Discipline::kWindowedAppend:
      return place_in_page(geometry, placed);
    case Discipline::kRing:
    case Discipline::kRecurrent:
      return place_in_block(geometry, placed);
  }
  return false;
}

Status place_all(const Layout& layout, Geometry& geometry) {
  for (std::size_t layer = 0; layer < layout.layers.size(); ++layer) {
    geometry.layer_begin.push_back(geometry.components.size());
    for (const ComponentSpec& spec : layout.layers[layer].components) {
      Placed placed{.layer = LayerIndex(static_cast<std::int64_t>(layer)), .spec = spec};
      if (!place(geometry, placed)) {
        return Error{.code = ErrorCode::kByteOverflow,
                     .component = spec.kind,
                     .layer = static_cast<std::int32_t>(layer),
                     .actual = std::numeric_limits<std::uint64_t>::max()};
      }
      geometry.components.push_back(placed);
    }
  }
  geometry.layer_begin.push_back(geometry.components.size());
  for (PageGroup& group : geometry.groups) group.page_bytes = padded(group.page_bytes);
  geometry.block_bytes = padded(geometry.block_bytes);
  return ok();
}

}  // namespace

const Placed* Geometry::find(LayerIndex layer, ComponentKind kind) const {
  if (layer.value() < 0 || layer.index() + 1 >= layer_begin.size()) return nullptr;
  for (std::size_t i = layer_begin[layer.index()]; i < layer_begin[layer.index() + 1]; ++i) {
    if (components[i].spec.kind == kind) return &components[i];
  }
  return nullptr;
}

Result<Geometry> make_geometry(const Layout& layout, Tokens max_rollback) {
  KVANT_TRY(layout.validate());
  try {
    Geometry geometry;
    geometry.page_positions = layout.page_positions;
    geometry.max_rollback = max_rollback;
    KVANT_TRY(place_all(layout, geometry));
    return geometry;
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

}  // namespace kvant::state
