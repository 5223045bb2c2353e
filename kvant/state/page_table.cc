#include "kvant/state/page_table.h"

#include <algorithm>
#include <new>

namespace kvant::state {
namespace {

std::size_t extents_for(std::size_t n_pages) {
  return n_pages + static_cast<std::size_t>(PageTable::kSpareExtents);
}

}  // namespace

Result<PageTable> PageTable::create(const PageGroup& group, Tokens page_positions, Pages capacity) {
  PageTable table;
  table.page_positions_ = page_positions.value();
  try {
    table.tables_.reserve(group.ratios.size());
    for (const std::int64_t ratio : group.ratios) table.tables_.push_back({.ratio = ratio});
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
  KVANT_TRY(table.reserve(capacity));
  return table;
}

Status PageTable::reserve(Pages capacity) {
  try {
    pages_.reserve(capacity.size());
    for (RatioTable& rows : tables_) rows.extents.reserve(extents_for(capacity.size()));
    return ok();
  } catch (const std::bad_alloc&) {
    const std::size_t a_page = sizeof(PoolRef) + tables_.size() * sizeof(tensor::Extent);
    return Error{.code = ErrorCode::kOutOfMemory, .actual = a_page * capacity.size()};
  }
}

Bytes PageTable::heap_bytes_for(const PageGroup& group, Pages capacity) {
  const std::size_t rows =
      sizeof(RatioTable) + extents_for(capacity.size()) * sizeof(tensor::Extent);
  const std::size_t bytes = capacity.size() * sizeof(PoolRef) + group.ratios.size() * rows;
  return Bytes(static_cast<std::int64_t>(bytes));
}

Bytes PageTable::heap_bytes() const {
  std::size_t bytes = pages_.capacity() * sizeof(PoolRef) + tables_.capacity() * sizeof(RatioTable);
  for (const RatioTable& rows : tables_) {
    bytes += rows.extents.capacity() * sizeof(tensor::Extent);
  }
  return Bytes(static_cast<std::int64_t>(bytes));
}

std::int64_t PageTable::n_missing_pages(Tokens n) const {
  const std::int64_t room = n_used_ > 0 ? page_positions_ - fill_ : 0;
  if (n.value() <= room) return 0;
  const std::int64_t pages = (n.value() - room - 1) / page_positions_ + 1;
  return std::max<std::int64_t>(pages - n_spare(), 0);
}

std::span<const tensor::Extent> PageTable::extents(std::int32_t table) const {
  const RatioTable& rows = tables_[static_cast<std::size_t>(table)];
  return {rows.extents.data(), rows.n_visible};
}

std::span<const tensor::Extent> PageTable::extents_of(std::int32_t table,
                                                      std::size_t page_index) const {
  const auto all = extents(table);
  if (!shifted_) return page_index < all.size() ? all.subspan(page_index, 1) : all.subspan(0, 0);
  const std::byte* page = pages_[page_index].data();
  const auto is_here = [&](const tensor::Extent& extent) { return extent.page == page; };
  const auto begin = std::ranges::find_if(all, is_here);
  const auto end = std::find_if_not(begin, all.end(), is_here);
  return {begin, end};
}

void PageTable::add_spare(PoolRef page) noexcept {
  KVANT_CHECK(pages_.size() < pages_.capacity());
  if (!shifted_) {
    for (RatioTable& rows : tables_) rows.extents.push_back({.page = page.data()});
  }
  pages_.push_back(std::move(page));
}

void PageTable::fill(Position first, Position end, std::span<PoolRef> pages) noexcept {
  for (PoolRef& page : pages) add_spare(std::move(page));
  first_ = first.value();
  set_end(end.value());
  KVANT_CHECK(n_used_ == pages_.size());
  show(0);
}

void PageTable::fill_cut(Position first, std::span<PoolRef> pages,
                         std::span<const tensor::Extent> extents) noexcept {
  shifted_ = true;
  for (PoolRef& page : pages) add_spare(std::move(page));
  RatioTable& rows = tables_.front();
  KVANT_CHECK(tables_.size() == 1 && extents.size() <= rows.extents.capacity());
  rows.extents.assign(extents.begin(), extents.end());
  rows.n_visible = extents.size();
  n_used_ = pages_.size();
  first_ = end_ = first.value();
  for (const tensor::Extent& extent : extents) end_ += extent.n_rows;
  fill_ = extents.empty() ? 0 : extents.back().first_row + extents.back().n_rows;
}

void PageTable::replace_open(PoolRef page) noexcept { replace(n_used_ - 1, std::move(page)); }

void PageTable::replace(std::size_t page_index, PoolRef page) noexcept {
  const std::byte* old = pages_[page_index].data();
  for (RatioTable& rows : tables_) {
    if (!shifted_) {
      rows.extents[page_index].page = page.data();
      continue;
    }
    for (tensor::Extent& extent : rows.extents) {
      if (extent.page == old) extent.page = page.data();
    }
  }
  pages_[page_index] = std::move(page);
}

void PageTable::advance(Tokens n, std::int64_t delta) noexcept {
  if (shifted_) return advance_shifted(n.value(), delta);
  const std::int64_t from = end_ / page_positions_ - first_ / page_positions_;
  set_end(end_ + n.value());
  show(from);
}

void PageTable::advance_shifted(std::int64_t n, std::int64_t delta) noexcept {
  RatioTable& rows = tables_.front();
  end_ += n;
  while (n > 0) {
    if (n_used_ == 0 || fill_ == page_positions_) {
      KVANT_CHECK(n_used_ < pages_.size());
      ++n_used_;
      fill_ = 0;
    }
    std::byte* page = pages_[n_used_ - 1].data();
    const std::int64_t here = std::min(n, page_positions_ - fill_);
    const bool grows = !rows.extents.empty() && rows.extents.back().page == page &&
                       rows.extents.back().position_delta == delta &&
                       rows.extents.back().first_row + rows.extents.back().n_rows == fill_;
    if (!grows) {
      KVANT_CHECK(rows.extents.size() < rows.extents.capacity());
      rows.extents.push_back({.page = page,
                              .first_row = static_cast<std::int32_t>(fill_),
                              .n_rows = 0,
                              .position_delta = delta});
    }
    rows.extents.back().n_rows += static_cast<std::int32_t>(here);
    fill_ += here;
    n -= here;
  }
  rows.n_visible = rows.extents.size();
}

void PageTable::retreat(Tokens n) noexcept {
  const std::size_t before = n_used_;
  if (shifted_) {
    retreat_shifted(n.value());
  } else {
    set_end(end_ - n.value());
    show(end_ / page_positions_ - first_ / page_positions_);
  }
  if (n_used_ < before) drop_spare_if_shared(before);
}

void PageTable::retreat_shifted(std::int64_t n) noexcept {
  RatioTable& rows = tables_.front();
  end_ -= n;
  while (n > 0) {
    tensor::Extent& last = rows.extents.back();
    const auto here = static_cast<std::int32_t>(std::min<std::int64_t>(n, last.n_rows));
    last.n_rows -= here;
    n -= here;
    if (last.n_rows == 0) rows.extents.pop_back();
  }
  rows.n_visible = rows.extents.size();
  const std::byte* page = rows.extents.empty() ? nullptr : rows.extents.back().page;
  while (n_used_ > 0 && pages_[n_used_ - 1].data() != page) --n_used_;
  fill_ = rows.extents.empty() ? 0 : rows.extents.back().first_row + rows.extents.back().n_rows;
}

// Of the pages that have just become spare, [n_used_, end).
void PageTable::drop_spare_if_shared(std::size_t end) noexcept {
  for (std::size_t i = end; i-- > n_used_;) {
    if (!pages_[i].is_unique()) erase_pages(i, i + 1);
  }
}

void PageTable::erase_pages(std::size_t begin, std::size_t end) noexcept {
  const auto erase = [&](auto& list) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(begin),
               list.begin() + static_cast<std::ptrdiff_t>(end));
  };
  erase(pages_);
  if (shifted_) return;
  for (RatioTable& rows : tables_) erase(rows.extents);
}

void PageTable::release_before(Position low) noexcept {
  if (shifted_) {
    RatioTable& rows = tables_.front();
    std::size_t n_gone = 0;  // extents
    while (n_gone < rows.extents.size() && first_ + rows.extents[n_gone].n_rows <= low.value()) {
      first_ += rows.extents[n_gone++].n_rows;
    }
    rows.extents.erase(rows.extents.begin(),
                       rows.extents.begin() + static_cast<std::ptrdiff_t>(n_gone));
    rows.n_visible = rows.extents.size();
    const std::byte* page = rows.extents.empty() ? nullptr : rows.extents.front().page;
    std::size_t n_pages = 0;
    while (n_pages < n_used_ && pages_[n_pages].data() != page) ++n_pages;
    erase_pages(0, n_pages);
    n_used_ -= n_pages;
    if (n_used_ == 0) fill_ = 0;
    return;
  }
  const std::int64_t wanted = std::min(low.value(), end_) / page_positions_;
  const auto n_pages =
      static_cast<std::size_t>(std::max<std::int64_t>(wanted - first_ / page_positions_, 0));
  if (n_pages == 0) return;
  erase_pages(0, n_pages);
  for (RatioTable& rows : tables_) rows.n_visible -= n_pages;
  n_used_ -= n_pages;
  first_ = wanted * page_positions_;
  if (n_used_ == 0) fill_ = 0;
}

void PageTable::clear() noexcept {
  pages_.clear();
  n_used_ = 0;
  clear_keeping_pages();
}

void PageTable::clear_keeping_pages() noexcept {
  const std::size_t used = n_used_;
  n_used_ = 0;
  drop_spare_if_shared(used);
  shifted_ = false;
  first_ = end_ = fill_ = 0;
  for (RatioTable& rows : tables_) {
    rows.extents.clear();
    for (const PoolRef& page : pages_) rows.extents.push_back({.page = page.data()});
    rows.n_visible = 0;
  }
}

void PageTable::assign(const PageTable& other) noexcept {
  if (this == &other) return;
  pages_.assign(other.pages_.begin(),
                other.pages_.begin() + static_cast<std::ptrdiff_t>(other.n_used_));
  n_used_ = other.n_used_;
  first_ = other.first_;
  end_ = other.end_;
  fill_ = other.fill_;
  shifted_ = other.shifted_;
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    const RatioTable& from = other.tables_[i];
    const std::size_t n = shifted_ ? from.n_visible : n_used_;
    tables_[i].extents.assign(from.extents.begin(),
                              from.extents.begin() + static_cast<std::ptrdiff_t>(n));
    tables_[i].n_visible = from.n_visible;
  }
}

void PageTable::assign(const PageTable& other, std::span<PoolRef> pages) noexcept {
  KVANT_CHECK(pages.size() == other.n_used_);
  assign(other);
  for (std::size_t i = 0; i < pages.size(); ++i) replace(i, std::move(pages[i]));
}

PageTable PageTable::copy() const {
  PageTable copy;
  copy.page_positions_ = page_positions_;
  copy.tables_.resize(tables_.size());
  copy.pages_.reserve(n_used_);
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    copy.tables_[i].ratio = tables_[i].ratio;
    copy.tables_[i].extents.reserve(std::max(n_used_, tables_[i].n_visible));
  }
  copy.assign(*this);
  return copy;
}

// Plain: pages in use and the fill of the last one.
void PageTable::set_end(std::int64_t end) noexcept {
  end_ = end;
  const std::int64_t n = end - first_;
  n_used_ = n == 0 ? 0 : static_cast<std::size_t>((n - 1) / page_positions_ + 1);
  KVANT_CHECK(n_used_ <= pages_.size());
  fill_ = n == 0 ? 0 : (n - 1) % page_positions_ + 1;
}

// Plain: counts the visible rows of the pages from the from_page-th in use on.
void PageTable::show(std::int64_t from_page) noexcept {
  for (RatioTable& rows : tables_) {
    const std::int64_t rows_a_page = page_positions_ / rows.ratio;
    const std::int64_t n_rows = (end_ - first_) / rows.ratio;  // first_ begins a page
    for (auto page = from_page; page < static_cast<std::int64_t>(n_used_); ++page) {
      const std::int64_t here = std::min(n_rows - page * rows_a_page, rows_a_page);
      rows.extents[static_cast<std::size_t>(page)].n_rows = static_cast<std::int32_t>(here);
    }
    rows.n_visible = static_cast<std::size_t>((n_rows + rows_a_page - 1) / rows_a_page);
  }
}

}  // namespace kvant::state
