// Paged causal attention over a target's Tile and Vector (simd/rows.h says how templates are kept
// apart).
//
// Up to kAttentionQueries queries of one KV head (rows by heads of its group) walk the extents
// together, so that a key or value row is widened once for several queries. For each extent:
//
//   scores   dot products of all queries with its rows, the Tile of the matrix product
//   weights  exp32(score - max) in the lanes of the rows, and their sum
//   values   each query's weighted sum of value rows, in ascending row order
//   merge    into what the extents before gave
//
// A query's rows end where it may not look further; those of the next query begin to be skipped
// where a tile starts beyond them. Scores of a tile beyond a query's end are replaced, never used.
// Queries are packed again where an extent's position delta differs from that of the extent before,
// which is nowhere in a sequence that was never shifted.
#pragma once

#include "kvant/kernels/kernel_table.h"
#include "kvant/kernels/simd/convert.h"
#include "kvant/kernels/simd/matmul.h"
#include "kvant/kernels/simd/rows.h"

namespace kvant::kernels::simd {

// Queries [first, first + n) of a part: query i is row i / group, head i % group. Later queries see
// at least the rows that earlier ones see.
template <class Tile>
struct QueryBlock {
  const AttentionArgs& args;
  const AttentionPart& part;
  std::int64_t first = 0;
  std::int64_t n = 0;
  float* queries = nullptr;  // [n, query_stride] packed, of the variant of the running extent
  float* scores = nullptr;   // [n, score_stride], in the lane of the row
  float* sums = nullptr;     // [n, value_stride] an extent's weighted sums
  std::int64_t query_stride = 0;
  std::int64_t score_stride = 0;
  std::int64_t value_stride = 0;
  const float* packed = nullptr;        // the variant that `queries` holds
  float max[kAttentionQueries] = {};    // of the extents so far
  float total[kAttentionQueries] = {};  // sum of weights
  bool seen[kAttentionQueries] = {};    // any row yet

  std::int64_t group() const { return args.n_heads / args.keys.n_heads; }
  std::int64_t row_of(std::int64_t i) const { return part.rows.begin + (first + i) / group(); }
  std::int64_t head_of(std::int64_t i) const {
    return row_of(i) * args.n_heads + part.kv_head * group() + (first + i) % group();
  }
  float* out_of(std::int64_t i) const { return args.out + head_of(i) * args.values.row_width; }
};

// One extent, as a block of queries sees it.
struct ExtentRows {
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
  std::int64_t before = 0;  // rows of the extents before it
  std::int64_t n_rows = 0;
  std::int64_t lane = 0;  // of the first row
  std::int64_t position_delta = 0;
};

template <class Tile>
std::int64_t visible_rows(const QueryBlock<Tile>& block, const ExtentRows& extent, std::int64_t i) {
  const std::int64_t seen = block.args.rows_before + block.row_of(i) + 1 - extent.before;
  if (seen <= 0) return 0;
  return seen < extent.n_rows ? seen : extent.n_rows;
}

template <class Tile, tensor::Dtype kKey>
void score_rows(const QueryBlock<Tile>& block, const ExtentRows& extent) {
  constexpr std::int64_t kKeysATile = 16;
  const std::int64_t n_visible = visible_rows(block, extent, block.n - 1);
  std::int64_t from = 0;
  for (std::int64_t j = 0; j < n_visible; j += kKeysATile) {
    while (visible_rows(block, extent, from) <= j) ++from;
    const std::int64_t left = n_visible - j;
    const Dots dots{.rows = extent.keys + j * block.args.keys.row_bytes,
                    .row_bytes = block.args.keys.row_bytes,
                    .x = block.queries + from * block.query_stride,
                    .x_stride = block.query_stride,
                    .width = block.args.keys.row_width,
                    .out = block.scores + from * block.score_stride + extent.lane + j,
                    .out_stride = block.score_stride};
    dots_of_block<Tile, kKey, Stream::kFromCache>(dots, block.n - from,
                                                  left < kKeysATile ? left : kKeysATile);
  }
}

// Turns the scores of a query into weights, in place. Lanes without a visible row get -0, which
// changes no sum. Returns the largest score and the sum of weights.
template <class Vector>
void weigh(float* scores, Range visible, float scale, float& max, float& sum) {
  const std::int64_t padded = (visible.end + kLanes - 1) / kLanes * kLanes;
  const auto fill = [&](float value) {
    for (std::int64_t j = 0; j < visible.begin; ++j) scores[j] = value;
    for (std::int64_t j = visible.end; j < padded; ++j) scores[j] = value;
  };
  const Vector factor = Vector::all(scale);
  fill(0.0F);
  map_row<Vector>(scores, padded, scores, [&](Vector v) { return mul(v, factor); });
  fill(-kInfinity);
  max = largest_of<Vector>(scores, padded);
  const Vector most = Vector::all(max);
  map_row<Vector>(scores, padded, scores, [&](Vector v) { return exp32(sub(v, most)); });
  fill(-0.0F);
  sum = sum_of<Vector>(scores, padded);
}

// What weighted_sums works on: value rows of an extent and the weights of some queries.
struct ValueRows {
  const std::byte* rows = nullptr;  // [.., width] of the values' type
  std::int64_t row_bytes = 0;
  const float* weights = nullptr;  // [.., weight_stride]
  std::int64_t weight_stride = 0;
  float* sums = nullptr;  // [.., sum_stride]
  std::int64_t sum_stride = 0;
};

// sums[q][d] = fma(weights[q][j], rows[j][d], sums[q][d]) for j in `range`, for kQueries queries
// and kVectors vectors of values of which the last has n_last numbers. Sums start at +0 if range
// does.
template <class Vector, tensor::Dtype kValue, int kQueries, int kVectors>
void weighted_sums(const ValueRows& values, Range range, std::int64_t n_last) {
  Array<Array<Vector, kVectors>, kQueries> sums;
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 8
    for (int d = 0; d < kVectors; ++d) {
      sums[q][d] = range.begin == 0
                       ? Vector::zero()
                       : Vector::load(values.sums + q * values.sum_stride + d * kLanes);
    }
  }
  for (std::int64_t j = range.begin; j < range.end; ++j) {
    const std::byte* row = values.rows + j * values.row_bytes;
    Array<Vector, kVectors> v;
#pragma GCC unroll 8
    for (int d = 0; d < kVectors; ++d) {
      const std::byte* from = row + d * kLanes * kBytes<kValue>;
      v[d] = d + 1 < kVectors || n_last == kLanes ? Vector::template widen<kValue>(from)
                                                  : widen_n<Vector, kValue>(from, n_last);
    }
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) {
      const Vector p = Vector::all(values.weights[q * values.weight_stride + j]);
#pragma GCC unroll 8
      for (int d = 0; d < kVectors; ++d) sums[q][d] = fma(p, v[d], sums[q][d]);
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 8
    for (int d = 0; d < kVectors; ++d) {
      sums[q][d].store(values.sums + q * values.sum_stride + d * kLanes);
    }
  }
}

// All numbers of the value rows, for kQueries queries.
template <class Tile, tensor::Dtype kValue, int kQueries>
void weighted_rows(ValueRows values, Range range, std::int64_t width) {
  using Vector = typename Tile::Vector;
  constexpr std::int64_t kStep = Tile::kValueVectors * kLanes;
  const auto advance = [&](std::int64_t n) {
    values.rows += n * kBytes<kValue>;
    values.sums += n;
    width -= n;
  };
  while (width >= kStep) {
    weighted_sums<Vector, kValue, kQueries, Tile::kValueVectors>(values, range, kLanes);
    advance(kStep);
  }
  while (width > 0) {
    const std::int64_t n = width < kLanes ? width : kLanes;
    weighted_sums<Vector, kValue, kQueries, 1>(values, range, n);
    advance(n);
  }
}

template <class Tile, tensor::Dtype kValue>
void sum_values(const QueryBlock<Tile>& block, const ExtentRows& extent, std::int64_t from) {
  constexpr std::int64_t kQueries = Tile::kValueQueries;
  const std::int64_t width = block.args.values.row_width;
  const auto values_of = [&](std::int64_t i) {
    return ValueRows{.rows = extent.values,
                     .row_bytes = block.args.values.row_bytes,
                     .weights = block.scores + i * block.score_stride + extent.lane,
                     .weight_stride = block.score_stride,
                     .sums = block.sums + i * block.value_stride,
                     .sum_stride = block.value_stride};
  };
  std::int64_t i = from;
  for (; i + kQueries <= block.n; i += kQueries) {
    // What all of them see, then what some see.
    const std::int64_t shared = visible_rows(block, extent, i);
    weighted_rows<Tile, kValue, kQueries>(values_of(i), {0, shared}, width);
    for (std::int64_t q = i; q < i + kQueries; ++q) {
      const std::int64_t end = visible_rows(block, extent, q);
      if (end > shared) weighted_rows<Tile, kValue, 1>(values_of(q), {shared, end}, width);
    }
  }
  for (; i < block.n; ++i) {
    weighted_rows<Tile, kValue, 1>(values_of(i), {0, visible_rows(block, extent, i)}, width);
  }
}

// out = a out + b sums
template <class Vector>
void merge_row(const float* sums, std::int64_t n, Vector a, Vector b, float* out) {
  std::int64_t d = 0;
  for (; d + kLanes <= n; d += kLanes) {
    fma(Vector::load(sums + d), b, mul(Vector::load(out + d), a)).store(out + d);
  }
  if (d < n) {
    const Vector before = Vector::load_n(out + d, n - d, 0.0F);
    fma(Vector::load(sums + d), b, mul(before, a)).store_n(out + d, n - d);
  }
}

// Merges an extent's partial of query i into what it has.
template <class Tile>
void merge_query(QueryBlock<Tile>& block, std::int64_t i, float max, float sum) {
  using Vector = typename Tile::Vector;
  const std::int64_t width = block.args.values.row_width;
  const float* sums = block.sums + i * block.value_stride;
  float* out = block.out_of(i);
  if (!block.seen[i]) {
    block.seen[i] = true;
    block.max[i] = max;
    block.total[i] = sum;
    for (std::int64_t d = 0; d < width; ++d) out[d] = sums[d];
    return;
  }
  const float most = max > block.max[i] ? max : block.max[i];
  const float a = exp32_of<Vector>(block.max[i] - most);
  const float b = exp32_of<Vector>(max - most);
  block.max[i] = most;
  block.total[i] = __builtin_fmaf(sum, b, block.total[i] * a);
  merge_row(sums, width, Vector::all(a), Vector::all(b), out);
}

// Calls f with the type as a constant: the leaves are compiled for each, the walk once.
template <class Tile, class F>
void with_type(tensor::Dtype dtype, const F& f) {
  switch (dtype) {
    case tensor::Dtype::kF16:
      return f.template operator()<tensor::Dtype::kF16>();
    case tensor::Dtype::kBf16:
      return f.template operator()<tensor::Dtype::kBf16>();
    default:
      return f.template operator()<tensor::Dtype::kF32>();
  }
}

// Packs the variant that an extent wants for queries [from, n), unless it lies there already. No
// later extent needs the queries before `from`: they see nothing any more.
template <class Tile>
void pack_queries(QueryBlock<Tile>& block, const ExtentRows& extent, std::int64_t from) {
  const AttentionPart& part = block.part;
  std::int64_t variant = 0;
  while (variant + 1 < part.n_queries &&
         part.queries[variant].position_delta != extent.position_delta) {
    ++variant;
  }
  const float* wanted = part.queries[variant].q;
  if (block.packed == wanted) return;
  block.packed = wanted;
  const tensor::PagedRows& keys = block.args.keys;
  for (std::int64_t i = from; i < block.n; ++i) {
    pack_activations<typename Tile::Vector>(keys.dtype, wanted + block.head_of(i) * keys.row_width,
                                            keys.row_width, block.queries + i * block.query_stride);
  }
}

template <class Tile>
void attend_extent(QueryBlock<Tile>& block, const ExtentRows& extent) {
  std::int64_t from = 0;
  while (from < block.n && visible_rows(block, extent, from) == 0) ++from;
  if (from == block.n) return;
  pack_queries(block, extent, from);
  with_type<Tile>(block.args.keys.dtype,
                  [&]<tensor::Dtype kKey>() { score_rows<Tile, kKey>(block, extent); });
  float max[kAttentionQueries] = {};
  float sum[kAttentionQueries] = {};
  for (std::int64_t i = from; i < block.n; ++i) {
    const Range visible{extent.lane, extent.lane + visible_rows(block, extent, i)};
    weigh<typename Tile::Vector>(block.scores + i * block.score_stride, visible, block.args.scale,
                                 max[i], sum[i]);
  }
  with_type<Tile>(block.args.values.dtype,
                  [&]<tensor::Dtype kValue>() { sum_values<Tile, kValue>(block, extent, from); });
  for (std::int64_t i = from; i < block.n; ++i) merge_query(block, i, max[i], sum[i]);
}

template <class Tile>
void attend_block(QueryBlock<Tile>& block) {
  using Vector = typename Tile::Vector;
  const tensor::PagedRows& keys = block.args.keys;
  const tensor::PagedRows& values = block.args.values;
  block.packed = nullptr;
  for (std::int64_t i = 0; i < block.n; ++i) block.seen[i] = false;
  std::int64_t before = 0;
  for (std::int64_t e = 0; e < block.part.n_extents; ++e) {
    const tensor::Extent& k = block.part.key_extents[e];
    const tensor::Extent& v = block.part.value_extents[e];
    const ExtentRows extent{
        .keys = k.page + keys.offset_bytes + block.part.kv_head * keys.head_stride_bytes +
                k.first_row * keys.row_bytes,
        .values = v.page + values.offset_bytes + block.part.kv_head * values.head_stride_bytes +
                  v.first_row * values.row_bytes,
        .before = before,
        .n_rows = k.n_rows,
        .lane = k.first_row % kLanes,
        .position_delta = k.position_delta};
    attend_extent(block, extent);
    before += k.n_rows;
  }
  for (std::int64_t i = 0; i < block.n; ++i) {
    float* out = block.out_of(i);
    const Vector total = Vector::all(block.seen[i] ? block.total[i] : 1.0F);
    if (!block.seen[i]) {
      for (std::int64_t d = 0; d < values.row_width; ++d) out[d] = 0.0F;
    }
    map_row<Vector>(out, values.row_width, out, [&](Vector x) { return div(x, total); });
  }
}

template <class Tile>
void attention(const AttentionArgs& args, const AttentionPart& part, float* scratch) {
  const auto padded = [](std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; };
  QueryBlock<Tile> block{.args = args, .part = part};
  block.query_stride = padded(args.keys.row_width);
  block.score_stride = padded(part.max_extent_rows);
  block.value_stride = padded(args.values.row_width);
  block.queries = scratch;
  block.scores = block.queries + kAttentionQueries * block.query_stride;
  block.sums = block.scores + kAttentionQueries * block.score_stride;
  const std::int64_t n = (part.rows.end - part.rows.begin) * block.group();
  for (std::int64_t i = 0; i < n; i += kAttentionQueries) {
    block.first = i;
    block.n = n - i < kAttentionQueries ? n - i : kAttentionQueries;
    attend_block(block);
  }
}

}  // namespace kvant::kernels::simd
