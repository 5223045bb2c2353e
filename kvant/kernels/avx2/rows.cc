#include "kvant/kernels/simd/rows.h"
#include "kvant/kernels/avx2/kernels.h"
#include "kvant/kernels/avx2/vector.h"
#include "kvant/kernels/simd/rope.h"

namespace kvant::kernels::avx2 {

void rms_norm(const RmsNormArgs& args) { simd::rms_norm<Vector>(args); }

void rope(const RopeArgs& args) { simd::rope<Vector>(args); }

void silu_mul(const float* gate, const float* up, std::int64_t n, float* out) {
  simd::silu_mul_row<Vector>(gate, up, n, out);
}

void add(const float* x, std::int64_t n, float* y) { simd::add_row<Vector>(x, n, y); }

void softmax(const float* x, std::int64_t n, float* out) { simd::softmax<Vector>(x, n, out); }

void exp32(const float* x, std::int64_t n, float* out) { simd::exp32_row<Vector>(x, n, out); }

}  // namespace kvant::kernels::avx2
