#include "kvant/kernels/simd/convert.h"
#include "kvant/kernels/avx512/kernels.h"
#include "kvant/kernels/avx512/vector.h"

namespace kvant::kernels::avx512 {

void widen(tensor::Dtype dtype, const std::byte* from, std::int64_t n, float* to) {
  simd::widen<Vector>(dtype, from, n, to);
}

void narrow(tensor::Dtype dtype, const float* from, std::int64_t n, std::byte* to) {
  simd::narrow<Vector>(dtype, from, n, to);
}

}  // namespace kvant::kernels::avx512
