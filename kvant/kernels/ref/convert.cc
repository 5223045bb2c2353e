#include <cstring>

#include "kvant/kernels/ref/kernels.h"
#include "kvant/kernels/ref/lanes.h"

namespace kvant::kernels::ref {

void widen(tensor::Dtype dtype, const std::byte* from, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = element_at(dtype, from, i);
}

void narrow(tensor::Dtype dtype, const float* from, std::int64_t n, std::byte* to) {
  if (dtype == tensor::Dtype::kF32) {
    if (n > 0) std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint16_t bits = dtype == tensor::Dtype::kF16 ? tensor::f16_from_f32(from[i])
                                                            : tensor::bf16_from_f32(from[i]);
    std::memcpy(to + i * 2, &bits, sizeof(bits));
  }
}

}  // namespace kvant::kernels::ref
