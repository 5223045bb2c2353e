#include "kvant/state/page_table.h"

#include <algorithm>
#include <new>

namespace kvant::state {

Result<PageTable> PageTable::create(const PageGroup& group, Tokens page_positions, Pages capacity) {
  try {
    PageTable table;
    table.page_positions_ = page_positions.value();
    table.pages_.reserve(capacity.size());
    table.tables_.reserve(group.ratios.size());
    for (const std::int64_t ratio : group.ratios) {
      table.tables_.push_back({.ratio = ratio, .extents = {}, .n_visible = 0});
      table.tables_.back().extents.reserve(capacity.size());
    }
    return table;
  } catch (const std::bad_alloc&) {
    const Bytes bytes = heap_bytes_for(group, capacity);
    return Error{.code = ErrorCode::kOutOfMemory,
                 .actual = static_cast<std::uint64_t>(bytes.value())};
  }
}

Bytes PageTable::heap_bytes_for(const PageGroup& group, Pages capacity) {
  const std::size_t a_page = sizeof(PoolRef) + group.ratios.size() * sizeof(tensor::Extent);
  return Bytes(static_cast<std::int64_t>(a_page)) * capacity.value();
}

Bytes PageTable::heap_bytes() const {
  std::size_t bytes = pages_.capacity() * sizeof(PoolRef);
  for (const RatioTable& rows : tables_) {
    bytes += rows.extents.capacity() * sizeof(tensor::Extent);
  }
  return Bytes(static_cast<std::int64_t>(bytes));
}

void PageTable::append(PoolRef page) noexcept {
  KVANT_CHECK(pages_.size() < pages_.capacity());
  for (RatioTable& rows : tables_) rows.extents.push_back({.page = page.data()});
  pages_.push_back(std::move(page));
}

void PageTable::replace_last(PoolRef page) noexcept {
  for (RatioTable& rows : tables_) rows.extents.back().page = page.data();
  pages_.back() = std::move(page);
}

void PageTable::clear() noexcept {
  pages_.clear();
  for (RatioTable& rows : tables_) {
    rows.extents.clear();
    rows.n_visible = 0;
  }
}

void PageTable::show(Position begin, Position end) noexcept {
  const auto first = begin.value() / page_positions_;
  for (RatioTable& rows : tables_) {
    const std::int64_t n_rows = end.value() / rows.ratio;
    const std::int64_t rows_a_page = page_positions_ / rows.ratio;
    for (auto page = first; page * page_positions_ < end.value(); ++page) {
      const std::int64_t here = std::min(n_rows - page * rows_a_page, rows_a_page);
      rows.extents[static_cast<std::size_t>(page)].n_rows = static_cast<std::int32_t>(here);
    }
    rows.n_visible = static_cast<std::size_t>((n_rows + rows_a_page - 1) / rows_a_page);
  }
}

}  // namespace kvant::state
