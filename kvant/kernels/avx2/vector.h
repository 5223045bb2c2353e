// Sixteen lanes as two AVX registers. Everything here is in an anonymous namespace, so each object
// file has its own copy (kernel_table.h says why).
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kvant/kernels/kernel_table.h"

namespace kvant::kernels::avx2 {
namespace {

struct Vector {
  __m256 lo;  // lanes 0 to 7
  __m256 hi;  // lanes 8 to 15

  static Vector zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Vector all(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  static Vector load(const float* from) {
    return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
  }

  // The first n < 16 lanes from memory, `fill` in the others.
  static Vector load_n(const float* from, std::int64_t n, float fill) {
    alignas(32) float lanes[16];
    for (std::int64_t i = 0; i < 16; ++i) lanes[i] = i < n ? from[i] : fill;
    return load(lanes);
  }

  void store(float* to) const {
    _mm256_storeu_ps(to, lo);
    _mm256_storeu_ps(to + 8, hi);
  }

  // The first n < 16 lanes.
  void store_n(float* to, std::int64_t n) const {
    alignas(32) float lanes[16];
    store(lanes);
    for (std::int64_t i = 0; i < n; ++i) to[i] = lanes[i];
  }

  static float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

  // Sixteen numbers of kType at any alignment, in their natural order.
  template <tensor::Dtype kType>
  static Vector widen(const std::byte* from) {
    if constexpr (kType == tensor::Dtype::kF32) {
      return load(reinterpret_cast<const float*>(from));
    } else {
      const auto* words = reinterpret_cast<const __m128i*>(from);
      const __m128i first = _mm_loadu_si128(words);
      const __m128i second = _mm_loadu_si128(words + 1);
      if constexpr (kType == tensor::Dtype::kF16) {
        return {_mm256_cvtph_ps(first), _mm256_cvtph_ps(second)};
      } else {
        return {widen_bf16(first), widen_bf16(second)};
      }
    }
  }

  // Sixteen numbers of kType in the lane order of their type.
  template <tensor::Dtype kType>
  static Vector lanes(const std::byte* from) {
    if constexpr (kType == tensor::Dtype::kBf16) {
      const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      return {even_words(words), odd_words(words)};
    } else {
      return widen<kType>(from);
    }
  }

  // The even and the odd ones of sixteen BF16 numbers.
  static __m256 even_words(__m256i words) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
  }
  static __m256 odd_words(__m256i words) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
    return _mm256_castsi256_ps(_mm256_and_si256(words, upper));
  }

  template <tensor::Dtype kType>
  void narrow(std::byte* to) const {
    if constexpr (kType == tensor::Dtype::kF32) {
      store(reinterpret_cast<float*>(to));
    } else {
      auto* words = reinterpret_cast<__m128i*>(to);
      if constexpr (kType == tensor::Dtype::kF16) {
        _mm_storeu_si128(words, _mm256_cvtps_ph(lo, _MM_FROUND_TO_NEAREST_INT));
        _mm_storeu_si128(words + 1, _mm256_cvtps_ph(hi, _MM_FROUND_TO_NEAREST_INT));
      } else {
        // The pack works within 128-bit halves: 0 2 1 3 puts them right.
        const __m256i packed = _mm256_packus_epi32(bf16_bits(lo), bf16_bits(hi));
        const __m256i ordered = _mm256_permute4x64_epi64(packed, 0xD8);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), ordered);
      }
    }
  }

  // Sixteen numbers in the lane order of BF16: even ones first.
  static Vector load_even_odd(const float* from) {
    const __m256 a = _mm256_loadu_ps(from);
    const __m256 b = _mm256_loadu_ps(from + 8);
    const __m256 even = _mm256_shuffle_ps(a, b, 0x88);  // a0 a2 b0 b2 a4 a6 b4 b6
    const __m256 odd = _mm256_shuffle_ps(a, b, 0xDD);
    return {order_quads(even), order_quads(odd)};
  }

  // Eight pairs (a, b) to (a c - b s, b c + a s).
  static Vector turn_pairs(Vector x, const float* cos, const float* sin) {
    return {turn_pairs(x.lo, cos, sin), turn_pairs(x.hi, cos + 4, sin + 4)};
  }

 private:
  static __m256 widen_bf16(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }

  static __m256i bf16_bits(__m256 value) {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i upper = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    const __m256i raised = _mm256_add_epi32(bits, _mm256_add_epi32(_mm256_set1_epi32(0x7FFF), odd));
    const __m256i rounded = _mm256_srli_epi32(raised, 16);
    const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded, quiet, is_nan);
  }

  static __m256 order_quads(__m256 pairs) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(pairs), 0xD8));
  }

  static __m256 turn_pairs(__m256 x, const float* cos, const float* sin) {
    const __m256 c = twice_each(cos);
    const __m256 s = twice_each(sin);
    return _mm256_fmaddsub_ps(x, c, _mm256_mul_ps(_mm256_permute_ps(x, 0xB1), s));
  }

  static __m256 twice_each(const float* four) {
    const __m128 v = _mm_loadu_ps(four);
    return _mm256_set_m128(_mm_unpackhi_ps(v, v), _mm_unpacklo_ps(v, v));
  }
};

inline Vector add(Vector a, Vector b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
inline Vector sub(Vector a, Vector b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
inline Vector mul(Vector a, Vector b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
inline Vector div(Vector a, Vector b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
// a * b + c, -(a * b) + c and a * b - c with one rounding.
inline Vector fma(Vector a, Vector b, Vector c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline Vector fnma(Vector a, Vector b, Vector c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
inline Vector fms(Vector a, Vector b, Vector c) {
  return {_mm256_fmsub_ps(a.lo, b.lo, c.lo), _mm256_fmsub_ps(a.hi, b.hi, c.hi)};
}
inline Vector negate(Vector a) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  return {_mm256_xor_ps(a.lo, sign), _mm256_xor_ps(a.hi, sign)};
}
// a > b ? a : b
inline Vector larger(Vector a, Vector b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}

// Adds the integer in the low bits of `shifted` to the exponent field of p.
inline Vector scale_by_exponent(Vector p, Vector shifted) {
  const auto half = [](__m256 value, __m256 steps) {
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(steps), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(value), exponent));
  };
  return {half(p.lo, shifted.lo), half(p.hi, shifted.hi)};
}

// Lanes of `yes` where x > bound, of `no` elsewhere.
inline Vector where_greater(Vector x, Vector bound, Vector yes, Vector no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, _mm256_cmp_ps(x.lo, bound.lo, _CMP_GT_OQ)),
          _mm256_blendv_ps(no.hi, yes.hi, _mm256_cmp_ps(x.hi, bound.hi, _CMP_GT_OQ))};
}

// Lanes of x where x is a NaN, of `no` elsewhere.
inline Vector keep_nan(Vector x, Vector no) {
  return {_mm256_blendv_ps(no.lo, x.lo, _mm256_cmp_ps(x.lo, x.lo, _CMP_UNORD_Q)),
          _mm256_blendv_ps(no.hi, x.hi, _mm256_cmp_ps(x.hi, x.hi, _CMP_UNORD_Q))};
}

// Steps 4, 2 and 1 of the tree of docs/numerics.md.
inline float tree_of_eight(__m256 eight) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float tree(Vector v) { return tree_of_eight(_mm256_add_ps(v.lo, v.hi)); }

// The largest lane; which zero of two does not matter to any caller.
inline float largest(Vector v) {
  const __m256 eight = _mm256_max_ps(v.lo, v.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

}  // namespace
}  // namespace kvant::kernels::avx2
