// Context shifts of a page table: cutting rows out, and closing the holes that this leaves.
#include <algorithm>
#include <utility>

#include "kvant/state/page_table.h"

namespace kvant::state {
namespace {

// Adds an extent, or lengthens the last one when it goes on there.
void add_piece(std::vector<tensor::Extent>& extents, const tensor::Extent& piece) {
  if (piece.n_rows == 0) return;
  if (!extents.empty()) {
    tensor::Extent& last = extents.back();
    if (last.page == piece.page && last.position_delta == piece.position_delta &&
        last.first_row + last.n_rows == piece.first_row) {
      last.n_rows += piece.n_rows;
      return;
    }
  }
  extents.push_back(piece);
}

tensor::Extent part_of(const tensor::Extent& extent, std::int64_t begin, std::int64_t end) {
  tensor::Extent part = extent;
  const std::int64_t n = std::max<std::int64_t>(end - begin, 0);
  part.first_row += static_cast<std::int32_t>(begin);
  part.n_rows = static_cast<std::int32_t>(n);
  return part;
}

}  // namespace

void PageTable::become_shifted() {
  if (shifted_) return;
  KVANT_CHECK(tables_.size() == 1 && tables_.front().ratio == 1);
  shifted_ = true;
  tables_.front().extents.resize(tables_.front().n_visible);
}

void PageTable::drop(Position keep, Tokens n) {
  become_shifted();
  const std::int64_t begin = keep.value();
  const std::int64_t end = begin + n.value();
  std::vector<tensor::Extent> pieces;
  RatioTable& rows = tables_.front();
  pieces.reserve(std::max(rows.extents.capacity(), rows.extents.size() + 2));
  std::int64_t position = first_;
  for (const tensor::Extent& extent : rows.extents) {
    const std::int64_t n_before = std::clamp<std::int64_t>(begin - position, 0, extent.n_rows);
    const std::int64_t n_until = std::clamp<std::int64_t>(end - position, 0, extent.n_rows);
    add_piece(pieces, part_of(extent, 0, n_before));
    tensor::Extent behind = part_of(extent, n_until, extent.n_rows);
    behind.position_delta -= n.value();
    add_piece(pieces, behind);
    position += extent.n_rows;
  }
  rows.extents = std::move(pieces);
  rows.n_visible = rows.extents.size();
  if (first_ > begin) first_ = std::max(first_, end) - n.value();
  end_ -= n.value();

  // Pages without rows go, spare ones stay.
  std::size_t next = 0;    // extent
  std::size_t n_kept = 0;  // pages
  for (std::size_t page = 0; page < n_used_; ++page) {
    const std::byte* data = pages_[page].data();
    const std::size_t before = next;
    while (next < rows.extents.size() && rows.extents[next].page == data) ++next;
    if (next > before) std::swap(pages_[n_kept++], pages_[page]);
  }
  erase_pages(n_kept, n_used_);
  n_used_ = n_kept;
  fill_ = rows.extents.empty() ? 0 : rows.extents.back().first_row + rows.extents.back().n_rows;
}

std::int64_t PageTable::n_hole_rows() const {
  if (!shifted_ || n_used_ == 0) return 0;
  std::int64_t n_rows = 0;
  for (const tensor::Extent& extent : tables_.front().extents) n_rows += extent.n_rows;
  return (static_cast<std::int64_t>(n_used_) - 1) * page_positions_ + fill_ - n_rows;
}

PageTable::Compaction PageTable::find_compaction() const {
  // Rows up to each page, from which the holes of any run follow.
  std::vector<std::int64_t> rows_until = {0};
  rows_until.reserve(n_used_ + 1);
  for (std::size_t page = 0; page < n_used_; ++page) {
    std::int64_t n = rows_until.back();
    for (const tensor::Extent& extent : extents_of(0, page)) n += extent.n_rows;
    rows_until.push_back(n);
  }
  const auto room = [&](std::size_t begin, std::size_t end) {
    const auto pages = static_cast<std::int64_t>(end - begin) * page_positions_;
    return end == n_used_ ? pages - page_positions_ + fill_ : pages;
  };
  // Two ends move up together: the shortest run behind each beginning.
  Compaction best{.begin = 0, .end = n_used_, .n_rows = rows_until.back(), .n_pages = 0};
  std::size_t begin = 0;
  for (std::size_t end = 1; end <= n_used_; ++end) {
    while (room(begin, end) - (rows_until[end] - rows_until[begin]) >= page_positions_) {
      if (end - begin <= best.end - best.begin) {
        best = {.begin = begin, .end = end, .n_rows = rows_until[end] - rows_until[begin]};
      }
      ++begin;
    }
  }
  best.n_pages = best.n_rows == 0 ? 0 : (best.n_rows - 1) / page_positions_ + 1;
  return best;
}

void PageTable::compact(const Compaction& run, std::span<PoolRef> pages) {
  KVANT_CHECK(static_cast<std::int64_t>(pages.size()) == run.n_pages);
  RatioTable& rows = tables_.front();
  std::vector<tensor::Extent> pieces;
  pieces.reserve(std::max(rows.extents.capacity(), rows.extents.size() + pages.size()));
  std::size_t first_extent = 0;
  for (std::size_t page = 0; page < run.begin; ++page) first_extent += extents_of(0, page).size();
  std::size_t end_extent = first_extent;
  for (std::size_t page = run.begin; page < run.end; ++page) {
    end_extent += extents_of(0, page).size();
  }
  const auto at = [&](std::size_t i) {
    return rows.extents.begin() + static_cast<std::ptrdiff_t>(i);
  };
  pieces.assign(rows.extents.begin(), at(first_extent));
  std::int64_t row = 0;  // of the run
  for (std::size_t i = first_extent; i < end_extent; ++i) {
    for (std::int64_t left = rows.extents[i].n_rows; left > 0;) {
      const std::int64_t in_page = row % page_positions_;
      const std::int64_t n = std::min(left, page_positions_ - in_page);
      add_piece(pieces, {.page = pages[static_cast<std::size_t>(row / page_positions_)].data(),
                         .first_row = static_cast<std::int32_t>(in_page),
                         .n_rows = static_cast<std::int32_t>(n),
                         .position_delta = rows.extents[i].position_delta});
      row += n;
      left -= n;
    }
  }
  pieces.insert(pieces.end(), at(end_extent), rows.extents.end());
  rows.extents = std::move(pieces);
  rows.n_visible = rows.extents.size();
  std::ranges::move(pages, pages_.begin() + static_cast<std::ptrdiff_t>(run.begin));
  erase_pages(run.begin + pages.size(), run.end);
  n_used_ -= run.end - run.begin - pages.size();
  fill_ = rows.extents.empty() ? 0 : rows.extents.back().first_row + rows.extents.back().n_rows;
}

void PageTable::clear_deltas() noexcept {
  for (RatioTable& rows : tables_) {
    for (tensor::Extent& extent : rows.extents) extent.position_delta = 0;
  }
}

}  // namespace kvant::state
