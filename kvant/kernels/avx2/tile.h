// Dot products in sixteen AVX registers: 3 rows of activations by 4 rows of weights, lanes 0 to 7
// in a first pass and 8 to 15 in a second, 12 registers of sums. (Both halves at once leave room
// for 3 by 2 only, and load each weight for fewer rows.) One row of activations, the common case
// of decoding, takes both halves in one pass over the weights.
#pragma once

#include "kvant/kernels/avx2/vector.h"
#include "kvant/kernels/simd/matmul.h"

namespace kvant::kernels::avx2 {
namespace {

// Eight lanes, as a type that an array template takes without a warning.
struct Half {
  __m256 v;
};

struct Tile {
  using Vector = avx2::Vector;
  static constexpr int kRows = 3;
  // Queries and vectors of values that weighted sums keep in registers.
  static constexpr int kValueQueries = 2;
  static constexpr int kValueVectors = 2;
  // Up to so many rows of activations, weights are widened for each tile instead of into a panel.
  static constexpr std::int64_t kDirectRows = 3;

  // The last, incomplete blocks of some rows, filled up.
  template <tensor::Dtype kType>
  static constexpr std::int64_t kBlockBytes = kLanes * simd::kBytes<kType>;
  template <tensor::Dtype kType, int kColumns>
  using Blocks = simd::Array<simd::Array<std::byte, kBlockBytes<kType>>, kColumns>;
  template <int kTileRows, int kColumns>
  using Sums = simd::Array<simd::Array<Half, kColumns>, kTileRows>;

  template <tensor::Dtype kType, simd::Stream kStream, int kTileRows, int kColumns>
  static void dots(const simd::Dots& dots) {
    alignas(32) Blocks<kType, kColumns> last;
    if (dots.width % kLanes != 0) {
      for (int c = 0; c < kColumns; ++c) {
        simd::copy_last_block<Vector, kType>(dots.rows + c * dots.row_bytes, dots.width, last[c]);
      }
    }
    if constexpr (kTileRows == 1) {
      both_halves<kType, kStream, kColumns>(dots, last);
    } else {
      Sums<kTileRows, kColumns> first;
      Sums<kTileRows, kColumns> second;
      one_half<kType, kStream, 0, kTileRows, kColumns>(dots, last, first);
      one_half<kType, simd::Stream::kFromCache, 1, kTileRows, kColumns>(dots, last, second);
      for (int r = 0; r < kTileRows; ++r) {
        simd::Array<Half, kColumns> sums;
        for (int c = 0; c < kColumns; ++c) sums[c].v = _mm256_add_ps(first[r][c].v, second[r][c].v);
        store_trees(sums, dots.out + r * dots.out_stride);
      }
    }
  }

 private:
  // Lanes 8 kHalf to 8 kHalf + 7 of a block of sixteen weights.
  template <tensor::Dtype kType, int kHalf>
  static __m256 half_block(const std::byte* block) {
    if constexpr (kType == tensor::Dtype::kF32) {
      return _mm256_loadu_ps(reinterpret_cast<const float*>(block) + 8 * kHalf);
    } else if constexpr (kType == tensor::Dtype::kF16) {
      return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block) + kHalf));
    } else {
      const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block));
      return kHalf == 0 ? Vector::even_words(words) : Vector::odd_words(words);
    }
  }

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

  template <tensor::Dtype kType, simd::Stream kStream, int kHalf, int kTileRows, int kColumns>
  static void one_half(const simd::Dots& dots, const Blocks<kType, kColumns>& last,
                       Sums<kTileRows, kColumns>& out) {
    Sums<kTileRows, kColumns> sums;
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) sums[r][c].v = _mm256_setzero_ps();
    }
    const auto step = [&](const std::byte* block, std::int64_t row_bytes, const float* x) {
      simd::Array<Half, kTileRows> xs;
#pragma GCC unroll 4
      for (int r = 0; r < kTileRows; ++r) {
        xs[r].v = _mm256_loadu_ps(x + r * dots.x_stride + 8 * kHalf);
      }
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        const __m256 w = half_block<kType, kHalf>(block + c * row_bytes);
#pragma GCC unroll 4
        for (int r = 0; r < kTileRows; ++r)
          sums[r][c].v = _mm256_fmadd_ps(w, xs[r].v, sums[r][c].v);
      }
    };
    const std::int64_t full = dots.width - dots.width % kLanes;
    for (std::int64_t k = 0; k < full; k += kLanes) {
      const std::int64_t bytes = k * simd::kBytes<kType>;
      prefetch<kStream, kColumns>(dots, bytes);
      step(dots.rows + bytes, dots.row_bytes, dots.x + k);
    }
    if (full < dots.width) step(last[0], kBlockBytes<kType>, dots.x + full);
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) out[r][c] = sums[r][c];
    }
  }

  template <tensor::Dtype kType, simd::Stream kStream, int kColumns>
  static void both_halves(const simd::Dots& dots, const Blocks<kType, kColumns>& last) {
    simd::Array<Half, kColumns> lo;
    simd::Array<Half, kColumns> hi;
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) lo[c].v = hi[c].v = _mm256_setzero_ps();
    const auto step = [&](const std::byte* block, std::int64_t row_bytes, const float* x) {
      const __m256 x_lo = _mm256_loadu_ps(x);
      const __m256 x_hi = _mm256_loadu_ps(x + 8);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        const std::byte* weights = block + c * row_bytes;
        lo[c].v = _mm256_fmadd_ps(half_block<kType, 0>(weights), x_lo, lo[c].v);
        hi[c].v = _mm256_fmadd_ps(half_block<kType, 1>(weights), x_hi, hi[c].v);
      }
    };
    const std::int64_t full = dots.width - dots.width % kLanes;
    for (std::int64_t k = 0; k < full; k += kLanes) {
      const std::int64_t bytes = k * simd::kBytes<kType>;
      prefetch<kStream, kColumns>(dots, bytes);
      step(dots.rows + bytes, dots.row_bytes, dots.x + k);
    }
    if (full < dots.width) step(last[0], kBlockBytes<kType>, dots.x + full);
    simd::Array<Half, kColumns> sums;
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) sums[c].v = _mm256_add_ps(lo[c].v, hi[c].v);
    store_trees(sums, dots.out);
  }

  static void store_trees(const Half (&sums)[1], float* out) { out[0] = tree_of_eight(sums[0].v); }

  // Steps 4, 2 and 1 of four trees together.
  static void store_trees(const Half (&sums)[4], float* out) {
    // Quads of sums 0 and 2, then of 1 and 3.
    const __m256 a = _mm256_add_ps(_mm256_permute2f128_ps(sums[0].v, sums[2].v, 0x20),
                                   _mm256_permute2f128_ps(sums[0].v, sums[2].v, 0x31));
    const __m256 b = _mm256_add_ps(_mm256_permute2f128_ps(sums[1].v, sums[3].v, 0x20),
                                   _mm256_permute2f128_ps(sums[1].v, sums[3].v, 0x31));
    // Pairs of 0, 1 in the low half, of 2, 3 in the high one.
    const __m256 pairs =
        _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xEE));
    const __m128 low = _mm256_castps256_ps128(pairs);
    const __m128 high = _mm256_extractf128_ps(pairs, 1);
    _mm_storeu_ps(out,
                  _mm_add_ps(_mm_shuffle_ps(low, high, 0x88), _mm_shuffle_ps(low, high, 0xDD)));
  }
};

}  // namespace
}  // namespace kvant::kernels::avx2
