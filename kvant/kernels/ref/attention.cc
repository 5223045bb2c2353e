#include <cmath>
#include <limits>

#include "kvant/kernels/math.h"
#include "kvant/kernels/ref/kernels.h"
#include "kvant/kernels/ref/lanes.h"

namespace kvant::kernels::ref {
namespace {

// Working memory of one query: its packed numbers, the scores of an extent, an extent's weighted
// sum of values.
struct Memory {
  float* query = nullptr;        // [padded head_dim], of the variant that the extent wants
  float* scores = nullptr;       // [max_extent_rows]
  float* accumulator = nullptr;  // [value_dim]
};

// What a query has gathered from the extents so far, or from one of them.
struct Partial {
  float max = 0.0F;
  float sum = 0.0F;
  float* accumulator = nullptr;  // [value_dim]
};

// The partial of the first n_visible rows of one extent.
Partial partial_of(const AttentionArgs& args, const AttentionPart& part, std::int64_t extent,
                   std::int64_t n_visible, const Memory& memory) {
  const tensor::Extent& keys = part.key_extents[extent];
  const tensor::Extent& values = part.value_extents[extent];
  Partial out{.max = -std::numeric_limits<float>::infinity(), .accumulator = memory.accumulator};
  for (std::int64_t j = 0; j < n_visible; ++j) {
    const std::byte* key = args.keys.row_at(keys, part.kv_head, keys.first_row + j);
    const float score = dot(args.keys.dtype, key, memory.query, args.keys.row_width) * args.scale;
    memory.scores[j] = score;
    if (score > out.max) out.max = score;
  }
  Lanes lanes{};
  for (std::int64_t d = 0; d < args.values.row_width; ++d) out.accumulator[d] = 0.0F;
  for (std::int64_t j = 0; j < n_visible; ++j) {
    const float p = kernels::exp32(memory.scores[j] - out.max);
    float& lane = lanes[static_cast<std::size_t>((keys.first_row + j) % kLanes)];
    lane = lane + p;
    const std::byte* value = args.values.row_at(values, part.kv_head, values.first_row + j);
    for (std::int64_t d = 0; d < args.values.row_width; ++d) {
      const float v = element_at(args.values.dtype, value, d);
      out.accumulator[d] = std::fma(p, v, out.accumulator[d]);
    }
  }
  out.sum = tree(lanes);
  return out;
}

void merge(const Partial& from, std::int64_t value_dim, Partial& into) {
  const float max = from.max > into.max ? from.max : into.max;
  const float a = kernels::exp32(into.max - max);
  const float b = kernels::exp32(from.max - max);
  into.max = max;
  into.sum = std::fma(from.sum, b, into.sum * a);
  for (std::int64_t d = 0; d < value_dim; ++d) {
    into.accumulator[d] = std::fma(from.accumulator[d], b, into.accumulator[d] * a);
  }
}

const float* queries_for(const AttentionPart& part, std::int64_t position_delta) {
  std::int64_t i = 0;
  while (i + 1 < part.n_queries && part.queries[i].position_delta != position_delta) ++i;
  return part.queries[i].q;
}

void attend(const AttentionArgs& args, const AttentionPart& part, std::int64_t row,
            std::int64_t head, Memory memory) {
  const std::int64_t value_dim = args.values.row_width;
  const std::int64_t query = row * args.n_heads + head;
  float* out = args.out + query * value_dim;
  Partial total{.accumulator = out};
  bool any = false;
  std::int64_t left = args.rows_before + row + 1;
  for (std::int64_t e = 0; e < part.n_extents && left > 0; ++e) {
    const std::int64_t n_rows = part.key_extents[e].n_rows;
    const std::int64_t n_visible = n_rows < left ? n_rows : left;
    left -= n_visible;
    if (n_visible == 0) continue;
    const float* queries = queries_for(part, part.key_extents[e].position_delta);
    pack_activations(args.keys.dtype, queries + query * args.keys.row_width, args.keys.row_width,
                     memory.query);
    if (any) {
      merge(partial_of(args, part, e, n_visible, memory), value_dim, total);
    } else {
      Memory first = memory;
      first.accumulator = out;
      total = partial_of(args, part, e, n_visible, first);
      any = true;
    }
  }
  for (std::int64_t d = 0; d < value_dim; ++d) out[d] = any ? out[d] / total.sum : 0.0F;
}

}  // namespace

void attention(const AttentionArgs& args, const AttentionPart& part, float* scratch) {
  const std::int64_t group = args.n_heads / args.keys.n_heads;
  Memory memory;
  memory.query = scratch;
  memory.scores = memory.query + (args.keys.row_width + kLanes - 1) / kLanes * kLanes;
  memory.accumulator = memory.scores + part.max_extent_rows;
  for (std::int64_t row = part.rows.begin; row < part.rows.end; ++row) {
    for (std::int64_t h = 0; h < group; ++h) {
      attend(args, part, row, part.kv_head * group + h, memory);
    }
  }
}

}  // namespace kvant::kernels::ref
