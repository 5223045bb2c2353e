#include "kvant/kernels/simd/matmul.h"
#include "kvant/kernels/avx512/kernels.h"
#include "kvant/kernels/avx512/tile.h"

namespace kvant::kernels::avx512 {

void matmul(const MatmulArgs& args, Range columns) { simd::matmul<Tile>(args, columns); }

void pack_activations(tensor::Dtype dtype, const float* x, std::int64_t n, float* out) {
  simd::pack_activations<Vector>(dtype, x, n, out);
}

}  // namespace kvant::kernels::avx512
