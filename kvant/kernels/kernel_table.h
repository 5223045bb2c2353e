// The numeric functions of the project, as a table of plain functions that each target fills.
//
// A target (ref, avx2, avx512) is a folder of files with equal names; it is chosen once at start.
// Every function fixes its order of roundings in docs/numerics.md, so all targets give the same
// bits. The functions work on parts of an operation (a range of columns, of channels, of rows), so
// that the callers in ops.h may spread them over threads as they like.
//
// Files built with a target's compiler flags include this header and no other of the project but
// their own folder's, and call none of the inline functions that it brings in: a linker keeps one
// copy of an inline function, and it must not be the one for a processor that is not there. Hence
// the raw pointers to extents and queries in AttentionPart.
//
// Units: counts are in elements unless the name says bytes. Nothing here allocates or fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvant/tensor/paged_rows.h"

namespace kvant::kernels {

enum class Target : std::uint8_t { kRef = 0, kAvx2 = 1, kAvx512 = 2 };

enum class RopePairing : std::uint8_t {
  kNeox = 0,  // pairs (i, i + head_dim/2)
  kNorm = 1,  // pairs (2i, 2i + 1)
};

// [begin, end)
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Numbers of a vector register's worth of lanes: sums have this many lanes on every target.
inline constexpr std::int64_t kLanes = 16;
// Columns that matmul widens at a time for many rows.
inline constexpr std::int64_t kPanelColumns = 16;
// Query rows and heads together that attention carries through the pages at a time.
inline constexpr std::int64_t kAttentionQueries = 64;

// out[r][c] = sum over k of weight[c][k] * x[r][k] (+ bias[c])
struct MatmulArgs {
  const std::byte* weight =
      nullptr;  // [n_columns, width] of `dtype`, rows contiguous, any alignment
  tensor::Dtype dtype = tensor::Dtype::kF32;
  std::int64_t width = 0;     // k runs over [0, width)
  const float* x = nullptr;   // [n_rows, x_stride], as pack_activations left it
  std::int64_t x_stride = 0;  // at least width rounded up to a multiple of kLanes
  std::int64_t n_rows = 0;
  const float* bias = nullptr;  // [n_columns] or null
  float* out = nullptr;         // [n_rows, out_stride]
  std::int64_t out_stride = 0;
  float* panel = nullptr;  // scratch of this worker, panel_floats(width) numbers
};

// One row of n numbers; x and out may be the same.
struct RmsNormArgs {
  const float* x = nullptr;       // [n]
  const float* weight = nullptr;  // [n]
  float eps = 0.0F;
  std::int64_t n = 0;
  float* out = nullptr;  // [n]
};

// The heads of one row, in place.
struct RopeArgs {
  float* x = nullptr;  // [n_heads, head_dim]
  std::int64_t n_heads = 0;
  std::int64_t head_dim = 0;   // even
  const float* cos = nullptr;  // [head_dim / 2]
  const float* sin = nullptr;  // [head_dim / 2]
  RopePairing pairing = RopePairing::kNeox;
};

// The queries of a span as the extents of one position delta want them. Keys that were stored for
// position s and stand at s + delta after a context shift keep their old angles; a query at
// position p is turned by p - delta when it meets them, which gives the same product.
struct QueryVariant {
  std::int64_t position_delta = 0;
  const float* q = nullptr;  // [n_rows, n_heads, head_dim]
};

// Causal grouped-query attention of a span of rows of one sequence over the pages of one layer.
struct AttentionArgs {
  // One for each position delta among the extents of keys, in any order; at least one.
  std::span<const QueryVariant> queries = {};
  tensor::PagedRows keys = {};    // rows of the span itself included
  tensor::PagedRows values = {};  // extents pairwise equal to those of keys in first_row and n_rows
  std::int64_t n_rows = 0;
  std::int64_t n_heads = 0;      // a multiple of keys.n_heads
  std::int64_t rows_before = 0;  // row i of the span sees the first rows_before + i + 1 rows
  float scale = 1.0F;
  float* out = nullptr;  // [n_rows, n_heads, values.row_width]
};

// What one call of attention does: all query heads of one KV head, some rows of the span.
struct AttentionPart {
  const tensor::Extent* key_extents = nullptr;    // keys.extents.data()
  const tensor::Extent* value_extents = nullptr;  // values.extents.data()
  std::int64_t n_extents = 0;
  const QueryVariant* queries = nullptr;  // queries.data()
  std::int64_t n_queries = 0;
  std::int64_t max_extent_rows = 0;  // no extent ends beyond this row of its page
  Range rows;                        // of the span
  std::int64_t kv_head = 0;
};

// Gated short convolution of a span of rows of one sequence (docs/numerics.md).
struct ShortConvArgs {
  float* bcx = nullptr;           // [n_rows, 3 * n_channels]: B, C, x; B is overwritten by u
  const float* weight = nullptr;  // [conv_width, n_channels], oldest tap first
  const float* bias = nullptr;    // [n_channels] or null
  float* state = nullptr;         // [conv_width - 1, n_channels], oldest first; in and out
  float* out = nullptr;           // [n_rows, n_channels]
  std::int64_t n_rows = 0;
  std::int64_t n_channels = 0;
  std::int64_t conv_width = 0;  // at least 2
};

struct KernelTable {
  Target target = Target::kRef;
  const char* name = "";

  // Some columns of a matrix product.
  void (*matmul)(const MatmulArgs& args, Range columns) = nullptr;
  // Brings one row of n activations into the lane order of a weight type; `out` has room for n
  // rounded up to a multiple of kLanes, the rest is set to +0. out must not overlap x.
  void (*pack_activations)(tensor::Dtype dtype, const float* x, std::int64_t n,
                           float* out) = nullptr;

  void (*rms_norm)(const RmsNormArgs& args) = nullptr;
  void (*rope)(const RopeArgs& args) = nullptr;
  // out = silu(gate) * up; out may be gate or up.
  void (*silu_mul)(const float* gate, const float* up, std::int64_t n, float* out) = nullptr;
  // y += x
  void (*add)(const float* x, std::int64_t n, float* y) = nullptr;
  // One row; out may be x.
  void (*softmax)(const float* x, std::int64_t n, float* out) = nullptr;
  void (*exp32)(const float* x, std::int64_t n, float* out) = nullptr;

  // n numbers of F32, F16 or BF16 at any alignment.
  void (*widen)(tensor::Dtype dtype, const std::byte* from, std::int64_t n, float* to) = nullptr;
  void (*narrow)(tensor::Dtype dtype, const float* from, std::int64_t n, std::byte* to) = nullptr;

  // scratch: attention_part_floats(...) numbers of this worker.
  void (*attention)(const AttentionArgs& args, const AttentionPart& part, float* scratch) = nullptr;

  // Some channels. State rows and the u columns of these channels are read and written, no others.
  void (*short_conv)(const ShortConvArgs& args, Range channels) = nullptr;
};

inline constexpr const char* kNumericsVersion = "cpu-1.0";

}  // namespace kvant::kernels
