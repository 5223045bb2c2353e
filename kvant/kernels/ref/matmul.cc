#include "kvant/kernels/ref/kernels.h"
#include "kvant/kernels/ref/lanes.h"

namespace kvant::kernels::ref {

void pack_activations(tensor::Dtype dtype, const float* x, std::int64_t n, float* out) {
  const std::int64_t padded = (n + kLanes - 1) / kLanes * kLanes;
  for (std::int64_t k = n - n % kLanes; k < padded; ++k) out[k] = 0.0F;
  for (std::int64_t k = 0; k < n; ++k) out[k - k % kLanes + lane_of(dtype, k)] = x[k];
}

void matmul(const MatmulArgs& args, Range columns) {
  const std::int64_t row_bytes = args.width * tensor::bytes_of(args.dtype);
  for (std::int64_t c = columns.begin; c < columns.end; ++c) {
    const std::byte* row = args.weight + c * row_bytes;
    for (std::int64_t r = 0; r < args.n_rows; ++r) {
      float sum = dot(args.dtype, row, args.x + r * args.x_stride, args.width);
      if (args.bias != nullptr) sum = sum + args.bias[c];
      args.out[r * args.out_stride + c] = sum;
    }
  }
}

}  // namespace kvant::kernels::ref
