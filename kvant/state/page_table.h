// The page table of one sequence and one page group: references to pages, and the extents that
// kernels walk.
//
//   pages     | page 0 (sealed) | page 1 (sealed) | page 2 (open) |
//   positions | 0 ...... P-1    | P ...... 2P-1   | 2P .. end     |
//   extents   | {p0, 0, P/r}    | {p1, 0, P/r}    | {p2, 0, k}    |   one list for each ratio r
//
// A full page is sealed: nobody writes it again, so any number of sequences and snapshots refer to
// it. The last page, if not full, is open; a sequence writes it in place only while it holds the
// only reference.
//
// Invariants
//   1. Extents of a ratio have ascending positions; entry i belongs to page i.
//   2. With end positions visible, the extents of ratio r hold exactly floor(end / r) rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvant/base/units.h"
#include "kvant/state/geometry.h"
#include "kvant/state/pool.h"
#include "kvant/tensor/paged_rows.h"

namespace kvant::state {

class PageTable {
 public:
  // Room for `capacity` pages; afterwards no function below takes memory from the heap.
  // Errors: kOutOfMemory.
  static Result<PageTable> create(const PageGroup& group, Tokens page_positions, Pages capacity);

  std::span<const PoolRef> pages() const { return pages_; }
  Pages n_pages() const { return Pages(static_cast<std::int64_t>(pages_.size())); }
  Bytes heap_bytes() const;
  // What `create` takes from the heap for a group.
  static Bytes heap_bytes_for(const PageGroup& group, Pages capacity);

  // Requires: n_pages() below the capacity.
  void append(PoolRef page) noexcept;
  // Puts another page in the place of the last one.
  void replace_last(PoolRef page) noexcept;
  void clear() noexcept;

  // Makes exactly the rows of the first `end` positions visible, given that those of the first
  // `begin` were. Requires: enough pages. Cost: the pages between begin and end.
  void show(Position begin, Position end) noexcept;

  // Extents of the visible rows of the group's table-th ratio.
  std::span<const tensor::Extent> extents(std::int32_t table) const {
    const RatioTable& rows = tables_[static_cast<std::size_t>(table)];
    return {rows.extents.data(), rows.n_visible};
  }

 private:
  struct RatioTable {
    std::int64_t ratio = 1;
    std::vector<tensor::Extent> extents;  // [n_pages]
    std::size_t n_visible = 0;            // leading extents that hold at least one row
  };

  PageTable() = default;

  std::int64_t page_positions_ = 1;
  std::vector<PoolRef> pages_;
  std::vector<RatioTable> tables_;
};

}  // namespace kvant::state
