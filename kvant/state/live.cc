#include "kvant/state/live.h"

#include <algorithm>

namespace kvant::state {
namespace {

LiveRows rows_of(const ComponentSpec& spec, const BlockAge& age) {
  return live_rows(spec.window, spec.group, age.position, age.depth);
}

// One component of two blocks.
struct BlockPair {
  tensor::Device& device;
  const Placed& from;
  const Placed& to;
  const std::byte* from_data;
  std::byte* to_data;
};

// Rows [begin, end) by position, each in as many runs as the two rings wrap.
Status copy_rows(const BlockPair& pair, std::int64_t begin, std::int64_t end) {
  const Bytes row_bytes = pair.from.row_bytes;
  while (begin < end) {
    const std::int64_t from_slot = begin % pair.from.n_slots;
    const std::int64_t to_slot = begin % pair.to.n_slots;
    const std::int64_t n =
        std::min({end - begin, pair.from.n_slots - from_slot, pair.to.n_slots - to_slot});
    for (std::int64_t head = 0; head < pair.from.spec.n_heads.value(); ++head) {
      const Bytes from = pair.from.head_stride * head + row_bytes * from_slot;
      const Bytes to = pair.to.head_stride * head + row_bytes * to_slot;
      KVANT_TRY(pair.device.copy(pair.to_data + to.value(), pair.from_data + from.value(),
                                 row_bytes * n));
    }
    begin += n;
  }
  return ok();
}

Status copy_narrow_rows(const BlockPair& pair, std::int64_t begin, std::int64_t end) {
  const Bytes bytes = narrow_row_bytes(pair.from);
  for (; begin < end; ++begin) {
    for (std::int64_t head = 0; head < pair.from.spec.n_heads.value(); ++head) {
      const Bytes from =
          pair.from.head_stride * head + pair.from.row_bytes * (begin % pair.from.n_slots);
      const Bytes to = pair.to.head_stride * head + pair.to.row_bytes * (begin % pair.to.n_slots);
      KVANT_TRY(pair.device.copy(pair.to_data + to.value(), pair.from_data + from.value(), bytes));
    }
  }
  return ok();
}

Status copy_versions(const BlockPair& pair, const BlockAge& age) {
  for (std::int64_t back = 0; back <= age.depth.value(); ++back) {
    const Bytes from = pair.from.version_bytes * ((age.age - back) % pair.from.n_slots);
    const Bytes to = pair.to.version_bytes * ((age.age - back) % pair.to.n_slots);
    KVANT_TRY(pair.device.copy(pair.to_data + to.value(), pair.from_data + from.value(),
                               pair.from.version_bytes));
  }
  return ok();
}

}  // namespace

LiveRows live_rows(Tokens window, Tokens group, Position position, Tokens depth) {
  const std::int64_t end = position.value();
  const std::int64_t oldest = std::max<std::int64_t>(end - depth.value(), 0);
  LiveRows rows{.begin = 0, .whole = 0, .end = end};
  if (group == Tokens(0)) {
    rows.begin = std::max<std::int64_t>(oldest - window.value() + 1, 0);
    rows.whole = rows.begin;
  } else {
    rows.whole = oldest / group.value() * group.value();
    rows.begin = std::max<std::int64_t>(rows.whole - (window - group).value(), 0);
  }
  return rows;
}

Bytes narrow_row_bytes(const Placed& ring) {
  if (ring.spec.overlap_width == Elements(0)) return ring.row_bytes;
  return codec::row_bytes(ring.spec.codec, ring.spec.overlap_width).value_or(ring.row_bytes);
}

Bytes live_ring_bytes(const Placed& ring, Position position) {
  const LiveRows rows = live_rows(ring.spec.window, ring.spec.group, position);
  const Bytes a_head =
      narrow_row_bytes(ring) * (rows.whole - rows.begin) + ring.row_bytes * (rows.end - rows.whole);
  return a_head * ring.spec.n_heads.value();
}

Status copy_live_block(tensor::Device& device, const BlockAge& age, const BlockView& from,
                       const BlockView& to) {
  for (std::size_t i = 0; i < from.geometry->components.size(); ++i) {
    const Placed& source = from.geometry->components[i];
    if (source.group >= 0) continue;
    const Placed& target = to.geometry->components[i];
    const BlockPair pair{.device = device,
                         .from = source,
                         .to = target,
                         .from_data = from.data + source.offset.value(),
                         .to_data = to.data + target.offset.value()};
    if (source.spec.discipline == Discipline::kRecurrent) {
      KVANT_TRY(copy_versions(pair, age));
      continue;
    }
    const LiveRows rows = rows_of(source.spec, age);
    KVANT_TRY(copy_narrow_rows(pair, rows.begin, rows.whole));
    KVANT_TRY(copy_rows(pair, rows.whole, rows.end));
  }
  return ok();
}

Bytes live_bytes(const Plan& plan, Position position) {
  Bytes sum{0};
  for (std::size_t i = 0; i < plan.components.size(); ++i) {
    const Placed& placed = plan.geometry.components[i];
    const ComponentSpec& spec = placed.spec;
    std::int64_t n_rows = position.value();
    switch (spec.discipline) {
      case Discipline::kAppend:
        n_rows /= spec.ratio;
        break;
      case Discipline::kWindowedAppend:
        n_rows = std::min(n_rows, spec.window.value() - 1);
        break;
      case Discipline::kRing:
        sum += live_ring_bytes(placed, position);
        continue;
      case Discipline::kRecurrent:
        sum += placed.version_bytes;
        continue;
    }
    sum += placed.row_bytes * n_rows * spec.n_heads.value();
  }
  return sum;
}

}  // namespace kvant::state
