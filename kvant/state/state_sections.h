// What a state file holds of a page or of the block, and in which order. Internal to the room: the
// writer and the reader of files walk the same bytes.
//
// Compact: live rows by component, head and row; of rings by component, head and position, rows of
// which only the first numbers are still read in those numbers only; of recurrent components the
// version that the next step begins from.
// Full: a page, and the block of a geometry without rollback, byte for byte; what is not live is
// given as a number to write there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/state/contents.h"
#include "kvant/state/geometry.h"
#include "kvant/state/state_file.h"

namespace kvant::state {

// Takes the bytes of a section in order.
class SectionVisitor {
 public:
  virtual ~SectionVisitor() = default;
  // Bytes [offset, offset + bytes) of the page or block in memory.
  virtual Status live(Bytes offset, Bytes bytes) = 0;
  // Of the full form only: bytes that nobody reads, as repeated 32-bit numbers (zeros fit any
  // count).
  virtual Status dead(Bytes bytes, float value) = 0;
};

// Which rows of a group a file holds: positions [first, end), spread over pages.
//
// Without pieces position p lies in row p mod page_positions of page p / page_positions, counted
// from the page of `first`: the pages that hold such a row, and the one that the next position goes
// to, unless it begins one.
class FiledRows {
 public:
  // `pieces` are those of the group.
  FiledRows(const Geometry& geometry, std::size_t group, Position position,
            std::span<const RowPiece> pieces);

  Position first() const { return first_; }
  Position end() const { return end_; }
  std::uint64_t n_pages() const;
  bool is_cut() const { return !pieces_.empty(); }
  std::span<const RowPiece> pieces() const { return pieces_; }
  // The rows of one page; `whole` is where a page that is not cut has its only piece.
  std::span<const RowPiece> pieces_of(std::uint64_t page, RowPiece& whole) const;
  // Whether pieces say no more than what holds without any: one a page, in its place.
  bool are_in_place(std::span<const RowPiece> pieces) const;

 private:
  Position first_{0};
  Position end_{0};
  std::int64_t page_positions_ = 1;
  std::uint32_t group_ = 0;
  std::span<const RowPiece> pieces_{};
};

// The pieces of one group among those of all, which are in order of group.
std::span<const RowPiece> pieces_of_group(std::span<const RowPiece> all, std::size_t group);

// Bytes of a page's section. Requires: pieces within the page.
Bytes page_section_bytes(const PageGroup& group, const Geometry& geometry,
                         std::span<const RowPiece> pieces, StateForm form);
Status visit_page(const PageGroup& group, const Geometry& geometry,
                  std::span<const RowPiece> pieces, StateForm form, SectionVisitor& visitor);

// Where a block stands: in memory, with its history, and in a file, without.
struct FiledBlock {
  const Geometry* memory = nullptr;
  const Geometry* filed = nullptr;
  Position position{0};
  std::int64_t age = 0;
  StateForm form = StateForm::kCompact;
};

// Bytes of the block's section. Uses `filed` alone.
Bytes block_section_bytes(const FiledBlock& block);
Status visit_block(const FiledBlock& block, SectionVisitor& visitor);

// The first component of a group, or of the block, to name in errors; null: there is none.
const Placed* first_component(const Geometry& geometry, std::int32_t group);

}  // namespace kvant::state
