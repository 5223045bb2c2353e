#include "kvant/kernels/simd/attention.h"
#include "kvant/kernels/avx512/kernels.h"
#include "kvant/kernels/avx512/tile.h"

namespace kvant::kernels::avx512 {

void attention(const AttentionArgs& args, const AttentionPart& part, float* scratch) {
  simd::attention<Tile>(args, part, scratch);
}

}  // namespace kvant::kernels::avx512
