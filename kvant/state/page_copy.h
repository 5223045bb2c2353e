// Copies of the rows of a page: for who writes a shared page, and for who takes over another
// pool's.
#pragma once

#include <cstddef>

#include "kvant/base/result.h"
#include "kvant/state/geometry.h"
#include "kvant/state/page_table.h"
#include "kvant/tensor/device.h"

namespace kvant::state {

// The pages of one group.
struct GroupPages {
  std::size_t group = 0;
  const PageTable* table = nullptr;
};

// Copies the visible rows of the table's page_index-th page to the same places of the page at `to`;
// a page that is full is copied as it is. What is not visible is not written otherwise.
// Errors: the device's; the bytes of `to` are then unspecified.
Status copy_page(tensor::Device& device, const Geometry& geometry, const GroupPages& pages,
                 std::size_t page_index, std::byte* to);

// Copies rows [extent.first_row, + n_rows) of a page of ratio 1, all members of the group, to rows
// [to_row, + n_rows) of the page at `to`. Errors: as above.
Status copy_extent(tensor::Device& device, const Geometry& geometry, std::size_t group,
                   const tensor::Extent& extent, std::byte* to, std::int64_t to_row);

}  // namespace kvant::state
