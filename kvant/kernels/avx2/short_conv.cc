#include "kvant/kernels/simd/short_conv.h"
#include "kvant/kernels/avx2/kernels.h"
#include "kvant/kernels/avx2/vector.h"

namespace kvant::kernels::avx2 {

void short_conv(const ShortConvArgs& args, Range channels) {
  simd::short_conv<Vector>(args, channels);
}

}  // namespace kvant::kernels::avx2
