#include "kvant/kernels/rotate_rows.h"

#include <algorithm>
#include <array>

#include "kvant/base/check.h"

namespace kvant::kernels {
namespace {

constexpr std::int64_t kBlockPairs = 64;

// Some pairs of a row. A pair knows nothing of the others, so any run of them is
// turned like a head of its own.
void rotate_pairs(const KernelTable& table, const RowRotation& rotation, std::byte* row,
                  Range pairs) {
  const tensor::PagedRows& rows = rotation.rows;
  const std::int64_t bytes = tensor::bytes_of(rows.dtype);
  const std::int64_t n = pairs.end - pairs.begin;
  const bool neox = rotation.pairing == RopePairing::kNeox;
  std::byte* first = row + (neox ? pairs.begin : 2 * pairs.begin) * bytes;
  std::byte* second = neox ? first + rows.row_width / 2 * bytes : first + n * bytes;
  std::array<float, 2 * kBlockPairs> numbers;
  table.widen(rows.dtype, first, n, numbers.data());
  table.widen(rows.dtype, second, n, numbers.data() + n);
  table.rope({.x = numbers.data(),
              .n_heads = 1,
              .head_dim = 2 * n,
              .cos = rotation.cos + pairs.begin,
              .sin = rotation.sin + pairs.begin,
              .pairing = rotation.pairing});
  table.narrow(rows.dtype, numbers.data(), n, first);
  table.narrow(rows.dtype, numbers.data() + n, n, second);
}

}  // namespace

void rotate_rows(const KernelTable& table, const RowRotation& rotation) {
  const tensor::PagedRows& rows = rotation.rows;
  KVANT_DCHECK(rows.row_width % 2 == 0 && tensor::is_float(rows.dtype));
  const std::int64_t n_pairs = rows.row_width / 2;
  for (const tensor::Extent& extent : rows.extents) {
    for (std::int64_t head = 0; head < rows.n_heads; ++head) {
      for (std::int64_t i = 0; i < extent.n_rows; ++i) {
        std::byte* row = rows.row_at(extent, head, extent.first_row + i);
        for (std::int64_t pair = 0; pair < n_pairs; pair += kBlockPairs) {
          rotate_pairs(table, rotation, row, {pair, std::min(n_pairs, pair + kBlockPairs)});
        }
      }
    }
  }
}

}  // namespace kvant::kernels
