#include "kvant/kernels/simd/attention.h"
#include "kvant/kernels/avx2/kernels.h"
#include "kvant/kernels/avx2/tile.h"

namespace kvant::kernels::avx2 {

void attention(const AttentionArgs& args, const AttentionPart& part, float* scratch) {
  simd::attention<Tile>(args, part, scratch);
}

}  // namespace kvant::kernels::avx2
