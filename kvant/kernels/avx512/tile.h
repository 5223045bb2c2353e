// Dot products in 32 AVX-512 registers: 6 rows of activations by 4 rows of weights, 24 registers of
// sums, one register a lane set. Trees of four rows are added up together by a transposition.
#pragma once

#include "kvant/kernels/avx512/vector.h"
#include "kvant/kernels/simd/matmul.h"

namespace kvant::kernels::avx512 {
namespace {

struct Tile {
  using Vector = avx512::Vector;
  static constexpr int kRows = 6;
  // Queries and vectors of values that weighted sums keep in registers.
  static constexpr int kValueQueries = 4;
  static constexpr int kValueVectors = 4;
  // Up to so many rows of activations, weights are widened for each tile instead of into a panel.
  static constexpr std::int64_t kDirectRows = 6;

  template <int kTileRows, int kColumns>
  using Sums = simd::Array<simd::Array<Vector, kColumns>, kTileRows>;

  template <tensor::Dtype kType, simd::Stream kStream, int kTileRows, int kColumns>
  static void dots(const simd::Dots& dots) {
    Sums<kTileRows, kColumns> sums;
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) sums[r][c] = Vector::zero();
    }
    const auto step = [&](const std::byte* block, std::int64_t row_bytes, const float* x) {
      simd::Array<Vector, kColumns> w;
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) w[c] = Vector::lanes<kType>(block + c * row_bytes);
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) {
        const Vector xs = Vector::load(x + r * dots.x_stride);
#pragma GCC unroll 4
        for (int c = 0; c < kColumns; ++c) sums[r][c] = fma(w[c], xs, sums[r][c]);
      }
    };
    const std::int64_t full = dots.width - dots.width % kLanes;
    for (std::int64_t k = 0; k < full; k += kLanes) {
      const std::int64_t bytes = k * simd::kBytes<kType>;
      prefetch<kStream, kColumns>(dots, bytes);
      step(dots.rows + bytes, dots.row_bytes, dots.x + k);
    }
    if (full < dots.width) {
      constexpr std::int64_t kBlockBytes = kLanes * simd::kBytes<kType>;
      alignas(64) simd::Array<simd::Array<std::byte, kBlockBytes>, kColumns> last;
      for (int c = 0; c < kColumns; ++c) {
        simd::copy_last_block<Vector, kType>(dots.rows + c * dots.row_bytes, dots.width, last[c]);
      }
      step(last[0], kBlockBytes, dots.x + full);
    }
    store_trees<kTileRows, kColumns>(sums, dots.out, dots.out_stride);
  }

 private:
  // Asks for what kColumns rows hold some way beyond `bytes`.
  template <simd::Stream kStream, int kColumns>
  static void prefetch(const simd::Dots& dots, std::int64_t bytes) {
    if constexpr (kStream == simd::Stream::kFromMemory) {
      // As a number: at the end it lies beyond the weights, where a pointer may not point.
      auto ahead = reinterpret_cast<std::intptr_t>(dots.rows);
      ahead += simd::bytes_ahead(bytes, dots.row_bytes, kColumns);
      for (int c = 0; c < kColumns; ++c) {
        _mm_prefetch(reinterpret_cast<const char*>(ahead + c * dots.row_bytes), _MM_HINT_T0);
      }
    }
  }

  template <int kTileRows, int kColumns>
  static void store_trees(const Sums<kTileRows, kColumns>& sums, float* out,
                          std::int64_t out_stride) {
    if constexpr (kColumns == 1) {
      for (int r = 0; r < kTileRows; ++r) out[r * out_stride] = tree(sums[r][0]);
    } else {
      constexpr int kTogether = kTileRows / 4 * 4;
      if constexpr (kTogether == 4) store_four_rows(sums, out, out_stride);
#pragma GCC unroll 4
      for (int r = kTogether; r < kTileRows; ++r) store_row(sums[r], out + r * out_stride);
    }
  }

  // Steps 8 and 4 of four trees: a quad of each.
  static __m512 quads_of(Vector a, Vector b, Vector c, Vector d) {
    const __m512 ab =
        _mm512_add_ps(_mm512_shuffle_f32x4(a.v, b.v, 0x44), _mm512_shuffle_f32x4(a.v, b.v, 0xEE));
    const __m512 cd =
        _mm512_add_ps(_mm512_shuffle_f32x4(c.v, d.v, 0x44), _mm512_shuffle_f32x4(c.v, d.v, 0xEE));
    return _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
  }

  static void store_row(const simd::Array<Vector, 4>& sums, float* out) {
    const __m512 quads = quads_of(sums[0], sums[1], sums[2], sums[3]);
    const __m512 pairs = _mm512_add_ps(quads, _mm512_permute_ps(quads, 0xEE));
    const __m512 ones = _mm512_add_ps(pairs, _mm512_permute_ps(pairs, 0x55));
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, ones)));
  }

  template <class Rows>
  static void store_four_rows(const Rows& s, float* out, std::int64_t out_stride) {
    simd::Array<Vector, 4> columns;
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) columns[c].v = quads_of(s[0][c], s[1][c], s[2][c], s[3][c]);
    // Step 2, then step 1; quad g of each belongs to row g.
    const __m512 x = _mm512_add_ps(_mm512_shuffle_ps(columns[0].v, columns[1].v, 0x44),
                                   _mm512_shuffle_ps(columns[0].v, columns[1].v, 0xEE));
    const __m512 y = _mm512_add_ps(_mm512_shuffle_ps(columns[2].v, columns[3].v, 0x44),
                                   _mm512_shuffle_ps(columns[2].v, columns[3].v, 0xEE));
    const __m512 z = _mm512_add_ps(_mm512_shuffle_ps(x, y, 0x88), _mm512_shuffle_ps(x, y, 0xDD));
    _mm_storeu_ps(out, _mm512_castps512_ps128(z));
    _mm_storeu_ps(out + out_stride, _mm512_extractf32x4_ps(z, 1));
    _mm_storeu_ps(out + 2 * out_stride, _mm512_extractf32x4_ps(z, 2));
    _mm_storeu_ps(out + 3 * out_stride, _mm512_extractf32x4_ps(z, 3));
  }
};

}  // namespace
}  // namespace kvant::kernels::avx512
