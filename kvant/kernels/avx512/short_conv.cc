#include "kvant/kernels/simd/short_conv.h"
#include "kvant/kernels/avx512/kernels.h"
#include "kvant/kernels/avx512/vector.h"

namespace kvant::kernels::avx512 {

void short_conv(const ShortConvArgs& args, Range channels) {
  simd::short_conv<Vector>(args, channels);
}

}  // namespace kvant::kernels::avx512
