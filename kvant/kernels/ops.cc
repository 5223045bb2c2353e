#include "kvant/kernels/ops.h"

#include <algorithm>

#include "kvant/base/check.h"

namespace kvant::kernels {
namespace {

// Work below this many numbers stays on the calling thread: waking another costs microseconds.
constexpr std::int64_t kNumbersATask = 16384;

std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

Range part_of(std::int64_t total, std::int64_t size, std::int64_t index) {
  return {index * size, std::min(total, (index + 1) * size)};
}

// Calls task(range) for consecutive ranges of [0, n), each of about kNumbersATask numbers.
template <class Task>
void run_ranges(const Executor& exec, std::int64_t n, std::int64_t numbers_each, const Task& task) {
  const std::int64_t size =
      std::max<std::int64_t>(1, kNumbersATask / std::max<std::int64_t>(1, numbers_each));
  exec.pool->run(divide_up(n, size),
                 [&](std::int64_t index, int) { task(part_of(n, size, index)); });
}

// Finds the item that holds task `index` when item i has n_tasks(item) of them, and what is left
// of the index there.
template <class Item, class Count>
const Item& find_item(std::span<const Item> items, const Count& n_tasks, std::int64_t& index) {
  std::size_t i = 0;
  for (; i + 1 < items.size(); ++i) {
    const std::int64_t n = n_tasks(items[i]);
    if (index < n) break;
    index -= n;
  }
  return items[i];
}

template <class Item, class Count>
std::int64_t sum_of_tasks(std::span<const Item> items, const Count& n_tasks) {
  std::int64_t total = 0;
  for (const Item& item : items) total += n_tasks(item);
  return total;
}

// Activations as matmul wants them.
struct Packed {
  const float* data = nullptr;  // [n_rows, stride]
  std::int64_t stride = 0;
};

Packed pack(const Executor& exec, const ActivationRows& x, tensor::Dtype dtype, float* to) {
  const std::int64_t stride = padded_width(x.width);
  if (dtype != tensor::Dtype::kBf16 && stride == x.width) return {x.data, stride};
  run_ranges(exec, x.n_rows, x.width, [&](Range rows) {
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      exec.table->pack_activations(dtype, x.data + r * x.width, x.width, to + r * stride);
    }
  });
  return {to, stride};
}

// Columns a task: about 128 KiB of weights, but enough tasks that no thread waits long for the
// last one; a multiple of the panel.
std::int64_t columns_a_task(const Weight& weight, int n_threads) {
  constexpr std::int64_t kTaskBytes = 128 * 1024;
  constexpr std::int64_t kTasksAThread = 4;
  const std::int64_t row_bytes =
      std::max<std::int64_t>(1, weight.width * tensor::bytes_of(weight.dtype));
  const std::int64_t by_bytes = divide_up(kTaskBytes, row_bytes);
  const std::int64_t by_threads = divide_up(weight.n_columns, n_threads * kTasksAThread);
  return divide_up(std::max<std::int64_t>(1, std::min(by_bytes, by_threads)), kPanelColumns) *
         kPanelColumns;
}

std::int64_t attention_row_block(const AttentionArgs& span) {
  const std::int64_t group = span.n_heads / span.keys.n_heads;
  return std::max<std::int64_t>(1, kAttentionQueries / group);
}

std::int64_t max_extent_rows(std::span<const tensor::Extent> extents) {
  std::int64_t rows = 1;
  for (const tensor::Extent& extent : extents) {
    rows = std::max<std::int64_t>(rows, extent.first_row + extent.n_rows);
  }
  return rows;
}

// Whether every extent finds the queries that were turned for it.
bool has_every_variant(const AttentionArgs& span) {
  return std::ranges::all_of(span.keys.extents, [&](const tensor::Extent& extent) {
    return std::ranges::find(span.queries, extent.position_delta, &QueryVariant::position_delta) !=
           span.queries.end();
  });
}

std::int64_t conv_channel_block(const ShortConvArgs& span) {
  const std::int64_t wanted = kNumbersATask / std::max<std::int64_t>(1, span.n_rows);
  return std::max<std::int64_t>(64, divide_up(wanted, kLanes) * kLanes);
}

}  // namespace

std::int64_t linear_scratch_floats(const LinearShape& shape) {
  // Rows in the lane order of F32 and F16 and in that of BF16, then a panel a thread.
  return 2 * shape.max_rows * padded_width(shape.max_width) +
         shape.n_threads * panel_floats(shape.max_width);
}

void linear(const Executor& exec, const ActivationRows& x,
            std::span<const Projection> projections) {
  if (projections.empty() || x.n_rows == 0) return;
  const int n_threads = exec.pool->n_threads();
  KVANT_DCHECK(static_cast<std::int64_t>(exec.scratch.size()) >=
               linear_scratch_floats({x.n_rows, x.width, n_threads}));
  float* natural_memory = exec.scratch.data();
  float* bf16_memory = natural_memory + x.n_rows * padded_width(x.width);
  float* panels = bf16_memory + x.n_rows * padded_width(x.width);
  Packed natural;
  Packed bf16;
  for (const Projection& projection : projections) {
    KVANT_DCHECK(projection.weight.width == x.width && tensor::is_float(projection.weight.dtype));
    const bool is_bf16 = projection.weight.dtype == tensor::Dtype::kBf16;
    Packed& packed = is_bf16 ? bf16 : natural;
    if (packed.data != nullptr) continue;
    packed = pack(exec, x, projection.weight.dtype, is_bf16 ? bf16_memory : natural_memory);
  }
  const auto n_tasks = [&](const Projection& projection) {
    return divide_up(projection.weight.n_columns, columns_a_task(projection.weight, n_threads));
  };
  exec.pool->run(sum_of_tasks(projections, n_tasks), [&](std::int64_t index, int worker) {
    const Projection& projection = find_item(projections, n_tasks, index);
    const Weight& weight = projection.weight;
    const Packed& packed = weight.dtype == tensor::Dtype::kBf16 ? bf16 : natural;
    const MatmulArgs args{.weight = weight.data,
                          .dtype = weight.dtype,
                          .width = weight.width,
                          .x = packed.data,
                          .x_stride = packed.stride,
                          .n_rows = x.n_rows,
                          .bias = weight.bias,
                          .out = projection.out,
                          .out_stride = projection.out_stride,
                          .panel = panels + worker * panel_floats(weight.width)};
    exec.table->matmul(args, part_of(weight.n_columns, columns_a_task(weight, n_threads), index));
  });
}

std::int64_t attention_scratch_floats(const AttentionScratchShape& shape) {
  return shape.n_threads * attention_part_floats(shape.rows);
}

void attention(const Executor& exec, std::span<const AttentionArgs> spans) {
  const auto n_blocks = [](const AttentionArgs& span) {
    return divide_up(span.n_rows, attention_row_block(span));
  };
  const auto n_tasks = [&](const AttentionArgs& span) {
    return n_blocks(span) * span.keys.n_heads;
  };
  // Each worker's scratch is as large as the largest span needs.
  std::int64_t part_floats = 0;
  for (const AttentionArgs& span : spans) {
    KVANT_DCHECK(has_every_variant(span));
    const std::int64_t rows = max_extent_rows(span.keys.extents);
    part_floats = std::max(
        part_floats, attention_part_floats({span.keys.row_width, span.values.row_width, rows}));
  }
  KVANT_DCHECK(static_cast<std::int64_t>(exec.scratch.size()) >=
               exec.pool->n_threads() * part_floats);
  exec.pool->run(sum_of_tasks(spans, n_tasks), [&](std::int64_t index, int worker) {
    const AttentionArgs& span = find_item(spans, n_tasks, index);
    // Long rows first: the last ones see the most.
    const std::int64_t block = n_blocks(span) - 1 - index % n_blocks(span);
    const AttentionPart part{.key_extents = span.keys.extents.data(),
                             .value_extents = span.values.extents.data(),
                             .n_extents = static_cast<std::int64_t>(span.keys.extents.size()),
                             .queries = span.queries.data(),
                             .n_queries = static_cast<std::int64_t>(span.queries.size()),
                             .max_extent_rows = max_extent_rows(span.keys.extents),
                             .rows = part_of(span.n_rows, attention_row_block(span), block),
                             .kv_head = index / n_blocks(span)};
    exec.table->attention(span, part, exec.scratch.data() + worker * part_floats);
  });
}

void short_conv(const Executor& exec, std::span<const ShortConvArgs> spans) {
  const auto n_tasks = [](const ShortConvArgs& span) {
    return divide_up(span.n_channels, conv_channel_block(span));
  };
  exec.pool->run(sum_of_tasks(spans, n_tasks), [&](std::int64_t index, int) {
    const ShortConvArgs& span = find_item(spans, n_tasks, index);
    exec.table->short_conv(span, part_of(span.n_channels, conv_channel_block(span), index));
  });
}

void rms_norm_rows(const Executor& exec, const RmsNormRows& rows) {
  run_ranges(exec, rows.n_rows, rows.width, [&](Range range) {
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      exec.table->rms_norm({.x = rows.x + r * rows.width,
                            .weight = rows.weight,
                            .eps = rows.eps,
                            .n = rows.width,
                            .out = rows.out + r * rows.width});
    }
  });
}

void rope_rows(const Executor& exec, const RopeRows& rows) {
  const std::int64_t half = rows.head_dim / 2;
  run_ranges(exec, rows.n_rows, rows.n_heads * rows.head_dim, [&](Range range) {
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      exec.table->rope({.x = rows.x + r * rows.row_stride,
                        .n_heads = rows.n_heads,
                        .head_dim = rows.head_dim,
                        .cos = rows.cos + r * half,
                        .sin = rows.sin + r * half,
                        .pairing = rows.pairing});
    }
  });
}

void silu_mul(const Executor& exec, const SiluMulArgs& args) {
  run_ranges(exec, args.n, 1, [&](Range range) {
    exec.table->silu_mul(args.gate + range.begin, args.up + range.begin, range.end - range.begin,
                         args.out + range.begin);
  });
}

void add(const Executor& exec, const AddArgs& args) {
  run_ranges(exec, args.n, 1, [&](Range range) {
    exec.table->add(args.x + range.begin, range.end - range.begin, args.y + range.begin);
  });
}

}  // namespace kvant::kernels
