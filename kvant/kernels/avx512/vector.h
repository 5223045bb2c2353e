// Sixteen lanes as one AVX-512 register. Everything here is in an anonymous namespace, so each
// object file has its own copy (kernel_table.h says why).
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kvant/kernels/kernel_table.h"

namespace kvant::kernels::avx512 {
namespace {

inline __mmask16 first_lanes(std::int64_t n) { return static_cast<__mmask16>((1U << n) - 1U); }

struct Vector {
  __m512 v;

  static Vector zero() { return {_mm512_setzero_ps()}; }
  static Vector all(float value) { return {_mm512_set1_ps(value)}; }
  static Vector load(const float* from) { return {_mm512_loadu_ps(from)}; }

  // The first n < 16 lanes from memory, `fill` in the others.
  static Vector load_n(const float* from, std::int64_t n, float fill) {
    return {_mm512_mask_loadu_ps(_mm512_set1_ps(fill), first_lanes(n), from)};
  }

  void store(float* to) const { _mm512_storeu_ps(to, v); }

  // The first n < 16 lanes.
  void store_n(float* to, std::int64_t n) const { _mm512_mask_storeu_ps(to, first_lanes(n), v); }

  static float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

  // Sixteen numbers of kType at any alignment, in their natural order.
  template <tensor::Dtype kType>
  static Vector widen(const std::byte* from) {
    if constexpr (kType == tensor::Dtype::kF32) {
      return {_mm512_loadu_ps(from)};
    } else {
      const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      if constexpr (kType == tensor::Dtype::kF16) {
        return {_mm512_cvtph_ps(words)};
      } else {
        return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16))};
      }
    }
  }

  // Sixteen numbers of kType in the lane order of their type.
  template <tensor::Dtype kType>
  static Vector lanes(const std::byte* from) {
    if constexpr (kType == tensor::Dtype::kBf16) {
      // Even ones in lanes 0 to 7, odd ones in 8 to 15, each in the upper half of its lane.
      const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      const __m512i twice = _mm512_broadcast_i64x4(words);
      const __m512i shifts = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi32(16), 0);
      const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
      return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_sllv_epi32(twice, shifts), upper))};
    } else {
      return widen<kType>(from);
    }
  }

  template <tensor::Dtype kType>
  void narrow(std::byte* to) const {
    if constexpr (kType == tensor::Dtype::kF32) {
      _mm512_storeu_ps(to, v);
    } else if constexpr (kType == tensor::Dtype::kF16) {
      const __m256i words = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
    } else {
      const __m512i bits = _mm512_castps_si512(v);
      const __m512i upper = _mm512_srli_epi32(bits, 16);
      const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
      const __m512i raised =
          _mm512_add_epi32(bits, _mm512_add_epi32(_mm512_set1_epi32(0x7FFF), odd));
      const __m512i rounded = _mm512_srli_epi32(raised, 16);
      const __m512i quiet = _mm512_or_si512(upper, _mm512_set1_epi32(0x40));
      const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
      const __m256i words = _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, is_nan, quiet));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
    }
  }

  // Sixteen numbers in the lane order of BF16: even ones first.
  static Vector load_even_odd(const float* from) {
    const __m512i order = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    return {_mm512_permutexvar_ps(order, _mm512_loadu_ps(from))};
  }

  // Eight pairs (a, b) to (a c - b s, b c + a s).
  static Vector turn_pairs(Vector x, const float* cos, const float* sin) {
    const __m512 c = twice_each(cos);
    const __m512 s = twice_each(sin);
    return {_mm512_fmaddsub_ps(x.v, c, _mm512_mul_ps(_mm512_permute_ps(x.v, 0xB1), s))};
  }

 private:
  static __m512 twice_each(const float* eight) {
    const __m512i order = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(order, _mm512_castps256_ps512(_mm256_loadu_ps(eight)));
  }
};

inline Vector add(Vector a, Vector b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vector sub(Vector a, Vector b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vector mul(Vector a, Vector b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vector div(Vector a, Vector b) { return {_mm512_div_ps(a.v, b.v)}; }
// a * b + c, -(a * b) + c and a * b - c with one rounding.
inline Vector fma(Vector a, Vector b, Vector c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vector fnma(Vector a, Vector b, Vector c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
inline Vector fms(Vector a, Vector b, Vector c) { return {_mm512_fmsub_ps(a.v, b.v, c.v)}; }
inline Vector negate(Vector a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0F))}; }
// a > b ? a : b
inline Vector larger(Vector a, Vector b) { return {_mm512_max_ps(a.v, b.v)}; }

// Adds the integer in the low bits of `shifted` to the exponent field of p.
inline Vector scale_by_exponent(Vector p, Vector shifted) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p.v), exponent))};
}

// Lanes of `yes` where x > bound, of `no` elsewhere.
inline Vector where_greater(Vector x, Vector bound, Vector yes, Vector no) {
  return {_mm512_mask_mov_ps(no.v, _mm512_cmp_ps_mask(x.v, bound.v, _CMP_GT_OQ), yes.v)};
}

// Lanes of x where x is a NaN, of `no` elsewhere.
inline Vector keep_nan(Vector x, Vector no) {
  return {_mm512_mask_mov_ps(no.v, _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q), x.v)};
}

// The tree of docs/numerics.md.
inline float tree(Vector a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// The largest lane; which zero of two does not matter to any caller.
inline float largest(Vector a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

}  // namespace
}  // namespace kvant::kernels::avx512
