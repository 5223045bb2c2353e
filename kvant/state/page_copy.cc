#include "kvant/state/page_copy.h"

namespace kvant::state {
namespace {

// The rows of one member of a group.
Status copy_rows(tensor::Device& device, const Placed& placed, const tensor::Extent& extent,
                 std::byte* to, std::int64_t to_row) {
  const std::int64_t from_offset = placed.row_bytes.value() * extent.first_row;
  const std::int64_t to_offset = placed.row_bytes.value() * to_row;
  for (std::int64_t head = 0; head < placed.spec.n_heads.value(); ++head) {
    const std::int64_t base = placed.offset.value() + head * placed.head_stride.value();
    KVANT_TRY(device.copy(to + base + to_offset, extent.page + base + from_offset,
                          placed.row_bytes * extent.n_rows));
  }
  return ok();
}

bool is_full(const Geometry& geometry, const GroupPages& pages, std::size_t page_index) {
  const auto extents = pages.table->extents_of(0, page_index);
  return !pages.table->shifted() && extents.size() == 1 &&
         (page_index + 1 < pages.table->pages().size() ||
          pages.table->fill() == geometry.page_positions.value());
}

}  // namespace

Status copy_page(tensor::Device& device, const Geometry& geometry, const GroupPages& pages,
                 std::size_t page_index, std::byte* to) {
  const PageGroup& group = geometry.groups[pages.group];
  if (is_full(geometry, pages, page_index)) {
    return device.copy(to, pages.table->pages()[page_index].data(), group.page_bytes);
  }
  for (const std::size_t member : group.members) {
    const Placed& placed = geometry.components[member];
    for (const tensor::Extent& extent : pages.table->extents_of(placed.table, page_index)) {
      KVANT_TRY(copy_rows(device, placed, extent, to, extent.first_row));
    }
  }
  return ok();
}

Status copy_extent(tensor::Device& device, const Geometry& geometry, std::size_t group,
                   const tensor::Extent& extent, std::byte* to, std::int64_t to_row) {
  for (const std::size_t member : geometry.groups[group].members) {
    KVANT_TRY(copy_rows(device, geometry.components[member], extent, to, to_row));
  }
  return ok();
}

}  // namespace kvant::state
