#include "kvant/tensor/paged_rows.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <set>

namespace kvant::tensor {
namespace {

// A page of two layers with two heads of four rows each, keys and values: every (layer, side, head,
// row) has bytes of its own, rows of a head follow one another, and together they fill the page.
TEST(PagedRows, TheRowsOfAllViewsOfAPageFillItWithoutOverlap) {
  constexpr std::int64_t kRowBytes = 6;
  constexpr std::int64_t kRows = 4;
  constexpr std::int64_t kHeads = 2;
  constexpr std::int64_t kViews = 4;
  std::array<std::byte, kViews * kHeads * kRows * kRowBytes> page{};
  const Extent extent{.page = page.data(), .first_row = 1, .n_rows = 2};
  std::set<const std::byte*> starts;
  for (std::int64_t view = 0; view < kViews; ++view) {
    const PagedRows rows{.extents = {&extent, 1},
                         .offset_bytes = view * kHeads * kRows * kRowBytes,
                         .head_stride_bytes = kRows * kRowBytes,
                         .row_bytes = kRowBytes,
                         .n_heads = kHeads,
                         .row_width = 3,
                         .dtype = Dtype::kF16};
    for (std::int64_t head = 0; head < kHeads; ++head) {
      for (std::int64_t row = 0; row < kRows; ++row) {
        const std::byte* at = rows.row_at(extent, head, row);
        EXPECT_TRUE(starts.insert(at).second);
        EXPECT_EQ((at - page.data()) % kRowBytes, 0);
        EXPECT_LE(at + kRowBytes, page.data() + page.size());
        EXPECT_EQ(at, rows.row_at(extent, head, 0) + row * kRowBytes);
      }
    }
  }
  EXPECT_EQ(starts.size(), static_cast<std::size_t>(kViews * kHeads * kRows));
}

}  // namespace
}  // namespace kvant::tensor
