// The target for processors with the F, BW, DQ and VL parts of AVX-512.
#pragma once

#include "kvant/kernels/kernel_table.h"

namespace kvant::kernels::avx512 {

void matmul(const MatmulArgs& args, Range columns);
void pack_activations(tensor::Dtype dtype, const float* x, std::int64_t n, float* out);
void rms_norm(const RmsNormArgs& args);
void rope(const RopeArgs& args);
void silu_mul(const float* gate, const float* up, std::int64_t n, float* out);
void add(const float* x, std::int64_t n, float* y);
void softmax(const float* x, std::int64_t n, float* out);
void exp32(const float* x, std::int64_t n, float* out);
void widen(tensor::Dtype dtype, const std::byte* from, std::int64_t n, float* to);
void narrow(tensor::Dtype dtype, const float* from, std::int64_t n, std::byte* to);
void attention(const AttentionArgs& args, const AttentionPart& part, float* scratch);
void short_conv(const ShortConvArgs& args, Range channels);

// The target's table; constant-initialised, so it may be used before main.
extern const KernelTable kTable;

}  // namespace kvant::kernels::avx512
