// The order of a matrix product's tiles, over a target's Tile.
//
// A Tile computes the dot products of up to kRows rows of activations with 4 or 1 rows of weights,
// all lanes in registers. Few rows of activations: weights are widened on the way, read once.
// Many: kPanelColumns rows of weights are widened once into a panel that stays in the cache, and
// all activations pass over it. Whichever it is, each lane sees its elements in ascending order, so
// the bits are those of the scalar loop. (simd/rows.h says how templates are kept apart.)
//
// A last, incomplete block of 16 weights is filled with -0. The activations beside it are +0, the
// products -0, and a lane plus -0 is the lane itself, so filling equals leaving it alone.
#pragma once

#include "kvant/kernels/kernel_table.h"
#include "kvant/kernels/simd/convert.h"

namespace kvant::kernels::simd {

// out[r][c] = rows[c] . x[r]
struct Dots {
  const std::byte* rows = nullptr;  // [.., width] of the weights' type, row_bytes apart
  std::int64_t row_bytes = 0;
  const float* x = nullptr;  // [.., x_stride] in lane order, padded with +0
  std::int64_t x_stride = 0;
  std::int64_t width = 0;
  float* out = nullptr;  // [.., out_stride]
  std::int64_t out_stride = 0;
};

// Whether the next weights should be asked for ahead of their use.
enum class Stream : std::uint8_t { kFromCache, kFromMemory };

namespace {

// Where in a group of n_columns rows to ask for weights when `bytes` of each row are done: further
// on in the same rows, or at the start of the next group's. A kilobyte ahead measured better than a
// whole group by an eighth for long rows of 16-bit weights, equal for the others.
constexpr std::int64_t bytes_ahead(std::int64_t bytes, std::int64_t row_bytes, int n_columns) {
  constexpr std::int64_t kAhead = 1024;
  const std::int64_t ahead = bytes + kAhead;
  return ahead < row_bytes ? ahead : ahead + (n_columns - 1) * row_bytes;
}

}  // namespace

// The last width % 16 numbers of a row and -0.
template <class Vector, tensor::Dtype kType>
void copy_last_block(const std::byte* row, std::int64_t width, std::byte* block) {
  constexpr std::int64_t kSize = kBytes<kType>;
  for (std::int64_t i = 0; i < kLanes * kSize; ++i) {
    block[i] = i % kSize == kSize - 1 ? std::byte{0x80} : std::byte{0};
  }
  const std::int64_t n = width % kLanes;
  __builtin_memcpy(block, row + (width - n) * kSize, static_cast<std::size_t>(n * kSize));
}

template <class Tile, tensor::Dtype kType, Stream kStream, int kColumns, int kRows = Tile::kRows>
void dots_of_rows(std::int64_t n_rows, const Dots& dots) {
  if constexpr (kRows == 1) {
    Tile::template dots<kType, kStream, 1, kColumns>(dots);
  } else if (n_rows >= kRows) {
    Tile::template dots<kType, kStream, kRows, kColumns>(dots);
  } else {
    dots_of_rows<Tile, kType, kStream, kColumns, kRows - 1>(n_rows, dots);
  }
}

// All dot products of n_rows rows of activations with n_columns rows of weights.
template <class Tile, tensor::Dtype kType, Stream kStream>
void dots_of_block(const Dots& all, std::int64_t n_rows, std::int64_t n_columns) {
  for (std::int64_t r = 0; r < n_rows; r += Tile::kRows) {
    Dots dots = all;
    dots.x += r * all.x_stride;
    dots.out += r * all.out_stride;
    std::int64_t c = 0;
    for (; c + 4 <= n_columns; c += 4) {
      dots_of_rows<Tile, kType, kStream, 4>(n_rows - r, dots);
      dots.rows += 4 * all.row_bytes;
      dots.out += 4;
    }
    for (; c < n_columns; ++c) {
      dots_of_rows<Tile, kType, kStream, 1>(n_rows - r, dots);
      dots.rows += all.row_bytes;
      dots.out += 1;
    }
  }
}

// A row of weights as binary32 in its lane order, padded with -0.
template <class Vector, tensor::Dtype kType>
void widen_in_lanes(const std::byte* row, std::int64_t width, float* to) {
  const std::int64_t full = width - width % kLanes;
  for (std::int64_t k = 0; k < full; k += kLanes) {
    Vector::template lanes<kType>(row + k * kBytes<kType>).store(to + k);
  }
  if (full < width) {
    alignas(64) Array<std::byte, kLanes * kBytes<kType>> block;
    copy_last_block<Vector, kType>(row, width, block);
    Vector::template lanes<kType>(block).store(to + full);
  }
}

template <class Tile, tensor::Dtype kType>
void matmul_by_panels(const MatmulArgs& args, Range columns) {
  const std::int64_t row_bytes = args.width * kBytes<kType>;
  const std::int64_t padded = (args.width + kLanes - 1) / kLanes * kLanes;
  for (std::int64_t c = columns.begin; c < columns.end; c += kPanelColumns) {
    const std::int64_t left = columns.end - c;
    const std::int64_t n_columns = left < kPanelColumns ? left : kPanelColumns;
    for (std::int64_t i = 0; i < n_columns; ++i) {
      widen_in_lanes<typename Tile::Vector, kType>(args.weight + (c + i) * row_bytes, args.width,
                                                   args.panel + i * padded);
    }
    const Dots dots{.rows = reinterpret_cast<const std::byte*>(args.panel),
                    .row_bytes = padded * kBytes<tensor::Dtype::kF32>,
                    .x = args.x,
                    .x_stride = args.x_stride,
                    .width = padded,
                    .out = args.out + c,
                    .out_stride = args.out_stride};
    dots_of_block<Tile, tensor::Dtype::kF32, Stream::kFromCache>(dots, args.n_rows, n_columns);
  }
}

template <class Tile, tensor::Dtype kType>
void matmul_of(const MatmulArgs& args, Range columns) {
  if (args.n_rows > Tile::kDirectRows) return matmul_by_panels<Tile, kType>(args, columns);
  const std::int64_t row_bytes = args.width * kBytes<kType>;
  const Dots dots{.rows = args.weight + columns.begin * row_bytes,
                  .row_bytes = row_bytes,
                  .x = args.x,
                  .x_stride = args.x_stride,
                  .width = args.width,
                  .out = args.out + columns.begin,
                  .out_stride = args.out_stride};
  dots_of_block<Tile, kType, Stream::kFromMemory>(dots, args.n_rows, columns.end - columns.begin);
}

template <class Tile>
void matmul(const MatmulArgs& args, Range columns) {
  switch (args.dtype) {
    case tensor::Dtype::kF16:
      matmul_of<Tile, tensor::Dtype::kF16>(args, columns);
      break;
    case tensor::Dtype::kBf16:
      matmul_of<Tile, tensor::Dtype::kBf16>(args, columns);
      break;
    default:
      matmul_of<Tile, tensor::Dtype::kF32>(args, columns);
      break;
  }
  if (args.bias == nullptr) return;
  for (std::int64_t r = 0; r < args.n_rows; ++r) {
    float* out = args.out + r * args.out_stride;
    for (std::int64_t c = columns.begin; c < columns.end; ++c) out[c] = out[c] + args.bias[c];
  }
}

}  // namespace kvant::kernels::simd
