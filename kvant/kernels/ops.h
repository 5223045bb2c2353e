// Parallel drivers over a kernel table: what model code calls.
//
// A driver cuts an operation into tasks whose results depend on the task alone (columns, channels,
// rows, heads), so the thread count and the order of tasks leave no trace in the bits. All working
// memory is the caller's: the ..._scratch_floats functions say how many numbers a driver needs, and
// one Executor::scratch of the largest need serves all drivers one after another.
//
// Invariants
//   1. Nothing here allocates or fails; sizes are the caller's promise (KVANT_DCHECKs help).
//   2. A row's result is the same whatever other rows are computed in the call.
//
// Units: strides and counts are in elements. Threads: any number of callers, each with its own
// scratch and outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvant/base/thread_pool.h"
#include "kvant/kernels/dispatch.h"
#include "kvant/kernels/kernel_table.h"

namespace kvant::kernels {

// Which target, whose threads and which working memory an operation uses.
struct Executor {
  const KernelTable* table = nullptr;
  ThreadPool* pool = nullptr;
  std::span<float> scratch;  // 64-byte aligned is fastest; any alignment works
};

// A matrix as it lies in a file: n_columns outputs of `width` inputs each.
struct Weight {
  const std::byte* data = nullptr;  // [n_columns, width] of dtype, any alignment
  tensor::Dtype dtype = tensor::Dtype::kF32;
  std::int64_t n_columns = 0;
  std::int64_t width = 0;
  const float* bias = nullptr;  // [n_columns] or null
};

// out[r][c] = weight[c] . x[r] + bias[c]
struct Projection {
  Weight weight;
  float* out = nullptr;         // [n_rows, out_stride]
  std::int64_t out_stride = 0;  // at least weight.n_columns
};

// Rows of activations, one after another.
struct ActivationRows {
  const float* data = nullptr;  // [n_rows, width]
  std::int64_t n_rows = 0;
  std::int64_t width = 0;
};

struct LinearShape {
  std::int64_t max_rows = 0;
  std::int64_t max_width = 0;
  int n_threads = 1;
};
std::int64_t linear_scratch_floats(const LinearShape& shape);

// Projects the same rows by one or several matrices (q, k and v; gate and up) in one parallel run.
// Requires: every weight.width == x.width; scratch of linear_scratch_floats. Outputs overlap
// neither x nor each other.
void linear(const Executor& exec, const ActivationRows& x, std::span<const Projection> projections);

struct AttentionScratchShape {
  AttentionShape rows;
  int n_threads = 1;
};
std::int64_t attention_scratch_floats(const AttentionScratchShape& shape);

// Attention of a whole batch in one parallel run. Requires: row widths and page rows of every span
// within what the scratch was sized for; a query variant for each position delta of a span's
// extents.
void attention(const Executor& exec, std::span<const AttentionArgs> spans);

// Short convolution of a whole batch in one parallel run. No scratch.
void short_conv(const Executor& exec, std::span<const ShortConvArgs> spans);

struct RmsNormRows {
  const float* x = nullptr;       // [n_rows, width]
  const float* weight = nullptr;  // [width]
  float eps = 0.0F;
  std::int64_t n_rows = 0;
  std::int64_t width = 0;
  float* out = nullptr;  // [n_rows, width], may be x
};
// Also the norm of heads: n_rows = rows * heads, width = head_dim. No scratch.
void rms_norm_rows(const Executor& exec, const RmsNormRows& rows);

// Several heads of rows, turned in place by their row's angles.
struct RopeRows {
  float* x = nullptr;           // [n_rows, row_stride], the heads first
  std::int64_t row_stride = 0;  // at least n_heads * head_dim
  std::int64_t n_rows = 0;
  std::int64_t n_heads = 0;
  std::int64_t head_dim = 0;
  const float* cos = nullptr;  // [n_rows, head_dim / 2]
  const float* sin = nullptr;  // [n_rows, head_dim / 2]
  RopePairing pairing = RopePairing::kNeox;
};
void rope_rows(const Executor& exec, const RopeRows& rows);

// out = silu(gate) * up over n numbers of any number of rows; out may be gate or up.
struct SiluMulArgs {
  const float* gate = nullptr;  // [n]
  const float* up = nullptr;    // [n]
  std::int64_t n = 0;
  float* out = nullptr;  // [n]
};
void silu_mul(const Executor& exec, const SiluMulArgs& args);

// y += x over n numbers of any number of rows.
struct AddArgs {
  const float* x = nullptr;  // [n]
  std::int64_t n = 0;
  float* y = nullptr;  // [n]
};
void add(const Executor& exec, const AddArgs& args);

}  // namespace kvant::kernels
