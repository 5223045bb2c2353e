#include "kvant/state/state_sections.h"

#include <algorithm>
#include <utility>

#include "kvant/state/live.h"

namespace kvant::state {
namespace {

// Joins neighbouring live bytes, so that rows that lie together are copied together.
class Joined {
 public:
  explicit Joined(SectionVisitor& visitor) : visitor_(visitor) {}

  Status live(std::int64_t offset, std::int64_t bytes) {
    if (bytes == 0) return ok();
    if (offset_ + bytes_ == offset && bytes_ > 0) {
      bytes_ += bytes;
      return ok();
    }
    KVANT_TRY(flush());
    offset_ = offset;
    bytes_ = bytes;
    return ok();
  }

  Status dead(std::int64_t bytes, float value = 0.0F) {
    if (bytes == 0) return ok();
    KVANT_TRY(flush());
    return visitor_.dead(Bytes(bytes), value);
  }

  Status flush() {
    const Bytes bytes(std::exchange(bytes_, 0));
    return bytes > Bytes(0) ? visitor_.live(Bytes(offset_), bytes) : ok();
  }

 private:
  SectionVisitor& visitor_;
  std::int64_t offset_ = 0;
  std::int64_t bytes_ = 0;
};

// Rows of one head of a page's component.
struct PageRows {
  std::int64_t first = 0;
  std::int64_t n = 0;
};

// Only a page that is not cut, so begins at row 0, has rows of several positions.
PageRows rows_of(const RowPiece& piece, std::int64_t ratio) {
  return {.first = piece.first_row / ratio, .n = piece.n_rows / ratio};
}

Status visit_member(const Placed& placed, std::int64_t page_positions,
                    std::span<const RowPiece> pieces, StateForm form, Joined& out) {
  const std::int64_t row_bytes = placed.row_bytes.value();
  const std::int64_t n_rows = page_positions / placed.spec.ratio;
  for (std::int64_t head = 0; head < placed.spec.n_heads.value(); ++head) {
    const std::int64_t base = placed.offset.value() + head * placed.head_stride.value();
    std::int64_t next = 0;  // row
    for (const RowPiece& piece : pieces) {
      const PageRows rows = rows_of(piece, placed.spec.ratio);
      if (form == StateForm::kFull) KVANT_TRY(out.dead((rows.first - next) * row_bytes));
      KVANT_TRY(out.live(base + rows.first * row_bytes, rows.n * row_bytes));
      next = rows.first + rows.n;
    }
    if (form == StateForm::kFull) KVANT_TRY(out.dead((n_rows - next) * row_bytes));
  }
  return ok();
}

struct Ring {
  const Placed& placed;  // in memory
  LiveRows rows;
  std::int64_t narrow = 0;  // bytes

  std::int64_t bytes_of(std::int64_t position) const {
    return position < rows.whole ? narrow : placed.row_bytes.value();
  }
  Status live(std::int64_t head, std::int64_t position, Joined& out) const {
    const std::int64_t slot = position % placed.n_slots;
    return out.live(
        placed.offset.value() + head * placed.head_stride.value() + slot * placed.row_bytes.value(),
        bytes_of(position));
  }
};

Ring ring_of(const Placed& placed, Position position) {
  return {.placed = placed,
          .rows = live_rows(placed.spec.window, placed.spec.group, position),
          .narrow = narrow_row_bytes(placed).value()};
}

Status visit_live_ring(const Ring& ring, Joined& out) {
  for (std::int64_t head = 0; head < ring.placed.spec.n_heads.value(); ++head) {
    for (std::int64_t position = ring.rows.begin; position < ring.rows.end; ++position) {
      KVANT_TRY(ring.live(head, position, out));
    }
  }
  return ok();
}

// Slot by slot, as the ring lies without rollback.
Status visit_whole_ring(const Ring& ring, Joined& out) {
  const std::int64_t window = ring.placed.spec.window.value();
  const std::int64_t row_bytes = ring.placed.row_bytes.value();
  const float initial = ring.placed.spec.initial_value;
  for (std::int64_t head = 0; head < ring.placed.spec.n_heads.value(); ++head) {
    for (std::int64_t slot = 0; slot < window; ++slot) {
      // The last position before the end that belongs here; one before the first has no row.
      const std::int64_t back = (ring.rows.end - 1 - slot) % window;
      const std::int64_t position = ring.rows.end - 1 - (back < 0 ? back + window : back);
      if (position < ring.rows.begin) {
        KVANT_TRY(out.dead(row_bytes, initial));
        continue;
      }
      KVANT_TRY(ring.live(head, position, out));
      KVANT_TRY(out.dead(row_bytes - ring.bytes_of(position), initial));
    }
  }
  return ok();
}

Status visit_version(const Placed& placed, std::int64_t age, Joined& out) {
  const std::int64_t version = age % placed.n_slots;
  return out.live(placed.offset.value() + placed.version_bytes.value() * version,
                  placed.version_bytes.value());
}

}  // namespace

FiledRows::FiledRows(const Geometry& geometry, std::size_t group, Position position,
                     std::span<const RowPiece> pieces)
    : end_(position),
      page_positions_(geometry.page_positions.value()),
      group_(static_cast<std::uint32_t>(group)),
      pieces_(pieces) {
  const std::int64_t window = geometry.groups[group].window.value();
  if (window > 0) first_ = Position(std::max<std::int64_t>(position.value() - window + 1, 0));
}

std::uint64_t FiledRows::n_pages() const {
  if (is_cut()) return std::uint64_t{pieces_.back().page} + 1;
  const std::int64_t behind = (end_.value() + page_positions_ - 1) / page_positions_;
  return static_cast<std::uint64_t>(behind - first_.value() / page_positions_);
}

std::span<const RowPiece> FiledRows::pieces_of(std::uint64_t page, RowPiece& whole) const {
  if (is_cut()) {
    const auto found = std::ranges::equal_range(pieces_, page, {}, &RowPiece::page);
    return {found.begin(), found.end()};
  }
  const std::int64_t begins =
      (first_.value() / page_positions_ + static_cast<std::int64_t>(page)) * page_positions_;
  const std::int64_t first = std::max(first_.value() - begins, std::int64_t{0});
  const std::int64_t end = std::min(end_.value() - begins, page_positions_);
  whole = {.group = group_,
           .page = static_cast<std::uint32_t>(page),
           .first_row = static_cast<std::uint32_t>(first),
           .n_rows = static_cast<std::uint32_t>(end - first)};
  return {&whole, 1};
}

bool FiledRows::are_in_place(std::span<const RowPiece> pieces) const {
  std::uint64_t page = 0;
  const std::uint64_t n = n_pages();
  for (const RowPiece& piece : pieces) {
    RowPiece whole;
    if (page == n || piece != pieces_of(page, whole).front()) return false;
    ++page;
  }
  // Without a row there are no pieces, and a page at most.
  return page == n || first_ == end_;
}

std::span<const RowPiece> pieces_of_group(std::span<const RowPiece> all, std::size_t group) {
  const auto found = std::ranges::equal_range(all, group, {}, &RowPiece::group);
  return {found.begin(), found.end()};
}

Bytes page_section_bytes(const PageGroup& group, const Geometry& geometry,
                         std::span<const RowPiece> pieces, StateForm form) {
  if (form == StateForm::kFull) return group.page_bytes;
  Bytes sum{0};
  for (const std::size_t member : group.members) {
    const Placed& placed = geometry.components[member];
    std::int64_t n_rows = 0;
    for (const RowPiece& piece : pieces) n_rows += rows_of(piece, placed.spec.ratio).n;
    sum += placed.row_bytes * n_rows * placed.spec.n_heads.value();
  }
  return sum;
}

Status visit_page(const PageGroup& group, const Geometry& geometry,
                  std::span<const RowPiece> pieces, StateForm form, SectionVisitor& visitor) {
  Joined out(visitor);
  Bytes at{0};
  for (const std::size_t member : group.members) {
    const Placed& placed = geometry.components[member];
    if (form == StateForm::kFull) KVANT_TRY(out.dead((placed.offset - at).value()));
    KVANT_TRY(visit_member(placed, geometry.page_positions.value(), pieces, form, out));
    at = placed.offset + placed.bytes;
  }
  if (form == StateForm::kFull) KVANT_TRY(out.dead((group.page_bytes - at).value()));
  return out.flush();
}

Bytes block_section_bytes(const FiledBlock& block) {
  if (block.form == StateForm::kFull) return block.filed->block_bytes;
  Bytes sum{0};
  for (const Placed& placed : block.filed->components) {
    if (placed.group >= 0) continue;
    sum += placed.spec.discipline == Discipline::kRecurrent
               ? placed.version_bytes
               : live_ring_bytes(placed, block.position);
  }
  return sum;
}

Status visit_block(const FiledBlock& block, SectionVisitor& visitor) {
  Joined out(visitor);
  const bool full = block.form == StateForm::kFull;
  Bytes at{0};
  for (std::size_t i = 0; i < block.memory->components.size(); ++i) {
    const Placed& placed = block.memory->components[i];
    const Placed& filed = block.filed->components[i];
    if (placed.group >= 0) continue;
    if (full) KVANT_TRY(out.dead((filed.offset - at).value()));
    if (placed.spec.discipline == Discipline::kRecurrent) {
      KVANT_TRY(visit_version(placed, block.age, out));
    } else {
      const Ring ring = ring_of(placed, block.position);
      KVANT_TRY(full ? visit_whole_ring(ring, out) : visit_live_ring(ring, out));
    }
    at = filed.offset + filed.bytes;
  }
  if (full) KVANT_TRY(out.dead((block.filed->block_bytes - at).value()));
  return out.flush();
}

const Placed* first_component(const Geometry& geometry, std::int32_t group) {
  const auto found = std::ranges::find(geometry.components, group, &Placed::group);
  return found == geometry.components.end() ? nullptr : &*found;
}

}  // namespace kvant::state
