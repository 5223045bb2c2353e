// A plain view of the rows of one side (keys, values, ...) of one layer, spread over pages.
//
// A sequence's page table is a list of extents, normally one a page. The table is the same for all
// layers of a page group; a view adds where in a page this layer's rows lie:
//
//   page 0                                   page 1
//   +--------+--------+--------+--------+    +--------+-- ...
//   | head 0 | head 1 | head 0 | head 1 |    | head 0 |
//   | keys of layer 2 | values, layer 2 |    |        |
//   +--------+--------+--------+--------+    +--------+-- ...
//            ^ head_stride_bytes             each head: page_rows rows of row_bytes, contiguous
//
// Kernels walk extents; they never compute a page from a position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvant/base/units.h"
#include "kvant/tensor/dtype.h"

namespace kvant::tensor {

// Rows [first_row, first_row + n_rows) of one page, in ascending position.
struct Extent {
  std::byte* page = nullptr;
  std::int32_t first_row = 0;       // within the page
  std::int32_t n_rows = 0;          // rows visible or written up to now and in this step
  std::int64_t position_delta = 0;  // added to a stored key's position by context shifts; 0 if none
};

struct PagedRows {
  std::span<const Extent> extents;     // ascending positions
  std::int64_t offset_bytes = 0;       // of head 0's row 0 within a page
  std::int64_t head_stride_bytes = 0;  // from one head's rows to the next head's
  std::int64_t row_bytes = 0;
  std::int32_t n_heads = 0;
  std::int32_t row_width = 0;  // numbers a row
  Dtype dtype = Dtype::kF32;
  std::int64_t first_row = 0;  // number of the first extent's first row: those before are gone

  // Row `row` of the page (not of the extent). Always inlined: kernels built with flags of one
  // processor call it, and their copy must not become the program's.
  [[gnu::always_inline]] std::byte* row_at(const Extent& extent, std::int64_t head,
                                           std::int64_t row) const {
    return extent.page + offset_bytes + head * head_stride_bytes + row * row_bytes;
  }
};

}  // namespace kvant::tensor
