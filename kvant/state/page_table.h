// The page table of one sequence and one page group: references to pages, and the extents that
// kernels walk.
//
//   pages     | page 0 (sealed) | page 1 (sealed) | page 2 (open) | spare
//   positions | 0 ...... P-1    | P ...... 2P-1   | 2P .. end     |
//   extents   | {p0, 0, P/r}    | {p1, 0, P/r}    | {p2, 0, k}    |   one list for each ratio r
//
// A full page is sealed: nobody writes it again, so any number of sequences and snapshots refer to
// it. The last page, if not full, is open; a sequence writes it in place only while it holds the
// only reference. Spare pages hold no rows: they were taken back by a rollback or kept by a reset
// and serve before the pool does.
//
// A plain table has one extent a page. A context shift cuts it: then the extents are the truth, two
// of them may lie in one page, and between them rows of a page may belong to nobody (holes). Only
// groups whose rows all have ratio 1 are ever shifted.
//
// Invariants
//   1. Concatenating the extents of ratio r gives rows first() / r, ... with ascending positions;
//      with end positions they reach exactly floor(end / r).
//   2. Pages appear in the order of their rows; rows in a page ascend.
//   3. A spare page has one reference.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/state/geometry.h"
#include "kvant/state/pool.h"
#include "kvant/tensor/paged_rows.h"

namespace kvant::state {

class PageTable {
 public:
  // Extents beyond one a page: the cuts that shifts may leave.
  static constexpr std::int64_t kSpareExtents = 16;

  // Room for `capacity` pages, within which no function marked noexcept takes memory from the heap.
  // Errors: kOutOfMemory.
  static Result<PageTable> create(const PageGroup& group, Tokens page_positions, Pages capacity);
  // Makes room for more. Errors: kOutOfMemory; nothing changed.
  Status reserve(Pages capacity);

  Bytes heap_bytes() const;
  // What `create` takes from the heap for a group.
  static Bytes heap_bytes_for(const PageGroup& group, Pages capacity);

  std::span<const PoolRef> pages() const { return {pages_.data(), n_used_}; }
  std::int64_t n_spare() const { return static_cast<std::int64_t>(pages_.size() - n_used_); }
  // The positions [first, end) that the table has rows of.
  Position first() const { return Position(first_); }
  Position end() const { return Position(end_); }
  // Row of the last page behind the last position, in positions of a page; 0 without pages.
  std::int64_t fill() const { return fill_; }
  bool shifted() const { return shifted_; }
  // The page that the next position goes into, null when that will be another one.
  const PoolRef* open_page() const {
    return n_used_ > 0 && fill_ < page_positions_ ? &pages_[n_used_ - 1] : nullptr;
  }
  // Pages that n more positions need and that the table does not have.
  std::int64_t n_missing_pages(Tokens n) const;
  // Rows of pages in use, in positions, that belong to nobody and are not behind the last one.
  std::int64_t n_hole_rows() const;

  // Extents of the rows of the group's table-th ratio; those of the page_index-th page.
  std::span<const tensor::Extent> extents(std::int32_t table) const;
  std::span<const tensor::Extent> extents_of(std::int32_t table, std::size_t page_index) const;

  // Makes a table that is empty and has no spare pages hold positions in `pages`, which it takes.
  // fill: [first, end), in order; `first` begins a page. fill_cut: as the extents say, which lie in
  // pages in order, at least one in each; the group must have ratio 1 only, and what advances the
  // table later brings deltas.
  // Requires: room for the pages and extents.
  void fill(Position first, Position end, std::span<PoolRef> pages) noexcept;
  void fill_cut(Position first, std::span<PoolRef> pages,
                std::span<const tensor::Extent> extents) noexcept;

  void add_spare(PoolRef page) noexcept;
  // Puts a copy of the open page in its place.
  void replace_open(PoolRef page) noexcept;
  // Makes the rows of n more positions visible, stored with a position delta (shifted tables only).
  // Requires: enough spare pages. Cost: the pages they touch.
  void advance(Tokens n, std::int64_t delta) noexcept;
  // Takes the last n positions back. Pages that then hold none become spare, or go when others
  // refer to them. Requires: n <= end - first.
  void retreat(Tokens n) noexcept;
  // Lets go of pages that lie wholly before `low`.
  void release_before(Position low) noexcept;
  void clear() noexcept;
  // The same, but pages that nobody else refers to become spare.
  void clear_keeping_pages() noexcept;
  // Becomes equal to `other` but for its spare pages. Requires: room.
  void assign(const PageTable& other) noexcept;
  // The same with other pages, which hold what those of `other` do. Requires: as many.
  void assign(const PageTable& other, std::span<PoolRef> pages) noexcept;
  // A copy without spare pages and without room for more. Throws std::bad_alloc.
  PageTable copy() const;

  // Drops positions [keep, keep + n): later ones move down, their rows stay where they are and
  // their delta falls by n. The group must have ratio 1 only. Throws std::bad_alloc, after which
  // the table may only be destroyed.
  void drop(Position keep, Tokens n);

  // A run of pages whose rows fit fewer pages.
  struct Compaction {
    std::size_t begin = 0;  // pages [begin, end)
    std::size_t end = 0;
    std::int64_t n_rows = 0;
    std::int64_t n_pages = 0;  // that hold them afterwards
  };
  // The shortest run whose holes make a page. Requires: n_hole_rows() of at least a page.
  Compaction find_compaction() const;
  // Lets `pages`, to which the run's rows have been copied without holes, take its place. Throws
  // std::bad_alloc, as drop.
  void compact(const Compaction& run, std::span<PoolRef> pages);

  // Sets all deltas to 0: the stored keys have been turned.
  void clear_deltas() noexcept;
  // Puts a copy of a page in its place.
  void replace(std::size_t page_index, PoolRef page) noexcept;

 private:
  struct RatioTable {
    std::int64_t ratio = 1;
    // Plain: one a page, spare ones too. Shifted: those of rows.
    std::vector<tensor::Extent> extents{};
    std::size_t n_visible = 0;  // leading extents that hold at least one row
  };

  PageTable() = default;
  void show(std::int64_t from_page) noexcept;
  void set_end(std::int64_t end) noexcept;
  void advance_shifted(std::int64_t n, std::int64_t delta) noexcept;
  void retreat_shifted(std::int64_t n) noexcept;
  void drop_spare_if_shared(std::size_t first) noexcept;
  void erase_pages(std::size_t begin, std::size_t end) noexcept;
  void become_shifted();

  std::int64_t page_positions_ = 1;
  std::vector<PoolRef> pages_{};  // in use, then spare
  std::size_t n_used_ = 0;
  std::int64_t first_ = 0;
  std::int64_t end_ = 0;
  std::int64_t fill_ = 0;
  bool shifted_ = false;
  std::vector<RatioTable> tables_{};
};

}  // namespace kvant::state
