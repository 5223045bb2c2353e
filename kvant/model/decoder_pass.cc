#include "kvant/model/decoder_pass.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kvant/model/token_check.h"

namespace kvant::model {
namespace {

std::int64_t count(std::span<const TokenId> tokens) {
  return static_cast<std::int64_t>(tokens.size());
}

LayerIndex layer_index(std::size_t layer) { return LayerIndex(static_cast<std::int64_t>(layer)); }

Error invalid(std::int64_t actual, std::int64_t expected) {
  return {.code = ErrorCode::kInvalidArgument,
          .actual = static_cast<std::uint64_t>(actual),
          .expected = static_cast<std::uint64_t>(expected)};
}

// Whether a workspace and the angles have room for the deltas of a sequence.
Status check_deltas(const WorkspaceShape& shape, const BatchSpan& span) {
  std::int64_t n_deltas = 0;
  std::int64_t furthest = 0;  // position for which a key or query is turned
  state::for_each_delta(span.sequence->position_runs(), [&](std::int64_t delta) {
    n_deltas += 1;
    furthest = std::max(furthest, span.sequence->position().value() - delta);
  });
  if (n_deltas > shape.max_query_variants) return invalid(n_deltas, shape.max_query_variants);
  constexpr std::int64_t kMostPositions = kernels::RopeFrequencies::kEndOfPositions;
  if (furthest + count(span.tokens) > kMostPositions) {
    return Error{.code = ErrorCode::kLimitExceeded,
                 .actual = static_cast<std::uint64_t>(furthest + count(span.tokens)),
                 .expected = static_cast<std::uint64_t>(kMostPositions)};
  }
  return ok();
}

// Stores rows [0, n) of `from` as the last n rows of a view.
// Shapes: from [n, n_heads, row_width] f32.
void store_rows(const kernels::KernelTable& kernels, const tensor::PagedRows& to, const float* from,
                std::int64_t n) {
  // Find where the last n rows begin, from the end: pages before it are of no interest.
  std::size_t extent = to.extents.size();
  std::int64_t left = n;
  while (left > 0) left -= to.extents[--extent].n_rows;
  std::int64_t skip = -left;  // rows of that extent that were there before

  for (; n > 0; ++extent, skip = 0) {
    const tensor::Extent& place = to.extents[extent];
    for (std::int64_t i = skip; i < place.n_rows; ++i, --n) {
      for (std::int64_t head = 0; head < to.n_heads; ++head, from += to.row_width) {
        kernels.narrow(to.dtype, from, to.row_width, to.row_at(place, head, place.first_row + i));
      }
    }
  }
}

}  // namespace

Status DecoderPass::check(const ModelConfig& config, const WorkspaceShape& shape,
                          std::span<const BatchSpan> batch) {
  const auto n_spans = static_cast<std::int64_t>(batch.size());
  if (n_spans < 1 || n_spans > shape.max_spans) return invalid(n_spans, shape.max_spans);
  std::int64_t n_rows = 0;
  for (const BatchSpan& span : batch) {
    if (span.tokens.empty()) return invalid(0, 1);
    n_rows += count(span.tokens);
    KVANT_TRY(check_tokens(span.tokens, config));
    KVANT_TRY(check_deltas(shape, span));
    for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
      if (config.layers[layer].kind == LayerKind::kAttention) {
        KVANT_TRY(span.sequence->rows(layer_index(layer), ComponentKind::kKeys));
        KVANT_TRY(span.sequence->rows(layer_index(layer), ComponentKind::kValues));
      } else {
        KVANT_TRY(span.sequence->recurrent(layer_index(layer), ComponentKind::kConvState));
      }
    }
  }
  if (n_rows > shape.max_rows.value()) return invalid(n_rows, shape.max_rows.value());
  return ok();
}

DecoderPass::DecoderPass(const Context& context, std::span<const BatchSpan> batch)
    : context_(context),
      batch_(batch),
      exec_{.table = &context.kernels,
            .pool = &context.pool,
            .scratch = context.workspace.kernel_scratch()},
      hidden_(part(context.workspace.layout().hidden)),
      normed_(part(context.workspace.layout().normed)),
      wide_(part(context.workspace.layout().wide)),
      mixed_(part(context.workspace.layout().mixed)) {
  for (const BatchSpan& span : batch) n_rows_ += count(span.tokens);
}

Status DecoderPass::run() {
  embed();
  plan_queries();
  for (std::size_t layer = 0; layer < context_.weights.layers.size(); ++layer) {
    const LayerWeights& weights = context_.weights.layers[layer];
    context_.observer.on_hidden(layer_index(layer), all_rows(hidden_));
    norm(weights.operator_norm, hidden_);
    if (weights.kind == LayerKind::kAttention) {
      KVANT_TRY(attention(layer));
    } else {
      KVANT_TRY(short_conv(layer));
    }
    feed_forward(weights);
  }
  for (const BatchSpan& span : batch_) span.sequence->versions_written();
  norm(context_.weights.final_norm, hidden_);
  context_.observer.on_hidden(layer_index(context_.weights.layers.size()), all_rows(normed_));
  report_logits();
  return ok();
}

std::span<const float> DecoderPass::all_rows(const float* data) const {
  return {data, static_cast<std::size_t>(n_rows_ * context_.config.hidden_size)};
}

void DecoderPass::embed() {
  const kernels::Weight& table = context_.weights.embedding;
  const std::int64_t row_bytes = table.width * tensor::bytes_of(table.dtype);
  float* row = hidden_;
  for (const BatchSpan& span : batch_) {
    for (const TokenId id : span.tokens) {
      context_.kernels.widen(table.dtype, table.data + id * row_bytes, table.width, row);
      row += table.width;
    }
  }
}

// Says which copies of its queries each span has, and prepares the angles that turn them: the first
// copy is q itself, turned like the new keys.
void DecoderPass::plan_queries() {
  const std::int64_t max_rows = context_.workspace.shape().max_rows.value();
  const std::int64_t q_width = context_.config.n_heads * context_.config.head_dim;
  const float* turned = part(context_.workspace.layout().turned);
  auto& variants = context_.workspace.query_variants();
  auto& spans = context_.workspace.span_queries();
  variants.clear();
  spans.clear();
  std::int64_t first = 0;
  for (const BatchSpan& span : batch_) {
    const std::int64_t n = count(span.tokens);
    std::int64_t row = first;  // of cos and sin
    std::size_t n_variants = 0;
    state::for_each_delta(span.sequence->position_runs(), [&](std::int64_t delta) {
      const float* q = row == first ? wide_ + first * q_width : turned + (row - max_rows) * q_width;
      variants.push_back({.position_delta = delta, .q = q});
      fill_angles(span.sequence->position() - Tokens(delta), n, row);
      row += max_rows;
      n_variants += 1;
    });
    spans.push_back(std::span(variants).last(n_variants));
    first += n;
  }
}

void DecoderPass::fill_angles(Position position, std::int64_t n, std::int64_t row) {
  const std::int64_t width = context_.rope.width();
  float* cos = part(context_.workspace.layout().cos) + row * width;
  float* sin = part(context_.workspace.layout().sin) + row * width;
  for (std::int64_t i = 0; i < n; ++i, ++position, cos += width, sin += width) {
    context_.rope.angles(position, cos, sin);
  }
}

void DecoderPass::turn(const Heads& heads) {
  const std::int64_t first_angle = heads.first_angle * context_.rope.width();
  kernels::rope_rows(exec_, {.x = heads.x,
                             .row_stride = heads.n_heads * context_.config.head_dim,
                             .n_rows = heads.n_rows,
                             .n_heads = heads.n_heads,
                             .head_dim = context_.config.head_dim,
                             .cos = part(context_.workspace.layout().cos) + first_angle,
                             .sin = part(context_.workspace.layout().sin) + first_angle,
                             .pairing = kernels::RopePairing::kNeox});
}

// Fills the copies of q, which is not turned yet, for extents of shifted sequences.
void DecoderPass::turn_further_queries(const float* q) {
  const std::int64_t max_rows = context_.workspace.shape().max_rows.value();
  const std::int64_t q_width = context_.config.n_heads * context_.config.head_dim;
  const auto& spans = context_.workspace.span_queries();
  std::int64_t first = 0;
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    const std::int64_t n = count(batch_[i].tokens);
    float* copy = part(context_.workspace.layout().turned) + first * q_width;
    std::int64_t first_angle = first;
    for (std::size_t variant = 1; variant < spans[i].size(); ++variant) {
      first_angle += max_rows;
      std::copy_n(q + first * q_width, n * q_width, copy);
      turn(
          {.x = copy, .n_rows = n, .n_heads = context_.config.n_heads, .first_angle = first_angle});
      copy += max_rows * q_width;
    }
    first += n;
  }
}

void DecoderPass::norm(const float* weight, const float* x) {
  kernels::rms_norm_rows(exec_, {.x = x,
                                 .weight = weight,
                                 .eps = context_.config.norm_eps,
                                 .n_rows = n_rows_,
                                 .width = context_.config.hidden_size,
                                 .out = normed_});
}

Status DecoderPass::attention(std::size_t layer) {
  const ModelConfig& config = context_.config;
  const AttentionWeights& weights = context_.weights.layers[layer].attention;
  const std::int64_t max_rows = context_.workspace.shape().max_rows.value();
  const std::int64_t q_width = config.n_heads * config.head_dim;
  const std::int64_t n_kv_heads = config.layers[layer].n_kv_heads;
  const std::int64_t kv_width = n_kv_heads * config.head_dim;
  float* q = wide_;
  float* k = q + max_rows * q_width;
  float* v = k + max_rows * kv_width;

  kernels::linear(exec_, {.data = normed_, .n_rows = n_rows_, .width = config.hidden_size},
                  std::array{kernels::Projection{weights.q, q, q_width},
                             kernels::Projection{weights.k, k, kv_width},
                             kernels::Projection{weights.v, v, kv_width}});
  const auto norm_heads = [&](float* x, std::int64_t n_heads, const float* norm_weight) {
    kernels::rms_norm_rows(exec_, {.x = x,
                                   .weight = norm_weight,
                                   .eps = config.norm_eps,
                                   .n_rows = n_rows_ * n_heads,
                                   .width = config.head_dim,
                                   .out = x});
  };
  norm_heads(q, config.n_heads, weights.q_norm);
  norm_heads(k, n_kv_heads, weights.k_norm);
  turn_further_queries(q);
  turn({.x = q, .n_rows = n_rows_, .n_heads = config.n_heads});
  turn({.x = k, .n_rows = n_rows_, .n_heads = n_kv_heads});

  auto& args = context_.workspace.attention_args();
  args.clear();
  const float scale = 1.0F / std::sqrt(static_cast<float>(config.head_dim));
  std::int64_t first = 0;
  for (const BatchSpan& span : batch_) {
    const LayerIndex index = layer_index(layer);
    const auto keys = KVANT_TRY(span.sequence->rows(index, ComponentKind::kKeys));
    const auto values = KVANT_TRY(span.sequence->rows(index, ComponentKind::kValues));
    const std::int64_t n = count(span.tokens);
    store_rows(context_.kernels, keys, k + first * kv_width, n);
    store_rows(context_.kernels, values, v + first * kv_width, n);
    args.push_back({.queries = context_.workspace.span_queries()[args.size()],
                    .keys = keys,
                    .values = values,
                    .n_rows = n,
                    .n_heads = config.n_heads,
                    .rows_before = span.sequence->position().value(),
                    .scale = scale,
                    .out = mixed_ + first * q_width});
    first += n;
  }
  kernels::attention(exec_, args);
  kernels::linear(exec_, {.data = mixed_, .n_rows = n_rows_, .width = q_width},
                  std::array{kernels::Projection{weights.out, normed_, config.hidden_size}});
  kernels::add(exec_, {.x = normed_, .n = n_rows_ * config.hidden_size, .y = hidden_});
  return ok();
}

Status DecoderPass::short_conv(std::size_t layer) {
  const std::int64_t hidden = context_.config.hidden_size;
  const ShortConvWeights& weights = context_.weights.layers[layer].conv;
  kernels::linear(exec_, {.data = normed_, .n_rows = n_rows_, .width = hidden},
                  std::array{kernels::Projection{weights.in, wide_, 3 * hidden}});
  KVANT_TRY(convolve(layer));
  kernels::linear(exec_, {.data = mixed_, .n_rows = n_rows_, .width = hidden},
                  std::array{kernels::Projection{weights.out, normed_, hidden}});
  kernels::add(exec_, {.x = normed_, .n = n_rows_ * hidden, .y = hidden_});
  return ok();
}

// Each position that a rollback may stop at gets a version of the state. So a span is taken in
// pieces: all but its last n_versions - 1 positions, then those one by one.
Status DecoderPass::convolve(std::size_t layer) {
  std::int64_t n_pieces = 1;
  for (const BatchSpan& span : batch_) {
    n_pieces = std::max(n_pieces, span.sequence->n_versions().value());
  }
  auto& args = context_.workspace.conv_args();
  for (std::int64_t piece = 0; piece < n_pieces; ++piece) {
    args.clear();
    std::int64_t first = 0;
    for (const BatchSpan& span : batch_) {
      if (piece < span.sequence->n_versions().value()) {
        const auto one = KVANT_TRY(piece_of(layer, span, piece));
        args.push_back(one);
        args.back().bcx += first * 3 * one.n_channels;
        args.back().out += first * one.n_channels;
      }
      first += count(span.tokens);
    }
    kernels::short_conv(exec_, args);
  }
  return ok();
}

// A piece of a span, as if the span were the batch's first. Its state begins as a copy of what the
// piece before it left.
Result<kernels::ShortConvArgs> DecoderPass::piece_of(std::size_t layer, const BatchSpan& span,
                                                     std::int64_t piece) {
  const LayerIndex index = layer_index(layer);
  const ShortConvWeights& weights = context_.weights.layers[layer].conv;
  const std::int64_t hidden = context_.config.hidden_size;
  const std::int64_t done = count(span.tokens) - span.sequence->n_versions().value() + 1 + piece;
  const std::int64_t begin = piece == 0 ? 0 : done - 1;
  const auto version = [&](std::int64_t n) {
    return span.sequence->recurrent_version(index, ComponentKind::kConvState, Tokens(n));
  };
  const auto before = KVANT_TRY(piece == 0 ? version(count(span.tokens)) : version(done - 1));
  const auto state = KVANT_TRY(version(done));
  if (before.data() != state.data()) std::ranges::copy(before, state.begin());
  return kernels::ShortConvArgs{.bcx = wide_ + begin * 3 * hidden,
                                .weight = weights.taps,
                                .bias = weights.bias,
                                .state = state.data(),
                                .out = mixed_ + begin * hidden,
                                .n_rows = done - begin,
                                .n_channels = hidden,
                                .conv_width = context_.config.conv_width};
}

void DecoderPass::feed_forward(const LayerWeights& weights) {
  const std::int64_t hidden = context_.config.hidden_size;
  const std::int64_t ffn = context_.config.ffn_dim;
  float* gate = wide_;
  float* up = wide_ + context_.workspace.shape().max_rows.value() * ffn;
  norm(weights.ffn_norm, hidden_);
  kernels::linear(exec_, {.data = normed_, .n_rows = n_rows_, .width = hidden},
                  std::array{kernels::Projection{weights.gate, gate, ffn},
                             kernels::Projection{weights.up, up, ffn}});
  kernels::silu_mul(exec_, {.gate = gate, .up = up, .n = n_rows_ * ffn, .out = gate});
  kernels::linear(exec_, {.data = gate, .n_rows = n_rows_, .width = ffn},
                  std::array{kernels::Projection{weights.down, normed_, hidden}});
  kernels::add(exec_, {.x = normed_, .n = n_rows_ * hidden, .y = hidden_});
}

// Collects wanted rows until a block is full, then multiplies the block by the head: the head's
// weights are read once for all sequences of a decode step.
void DecoderPass::report_logits() {
  const std::int64_t hidden = context_.config.hidden_size;
  const auto block = static_cast<std::size_t>(context_.workspace.shape().max_logit_rows.value());
  float* rows = part(context_.workspace.layout().logit_rows);
  auto& waiting = context_.workspace.wanted_rows();
  waiting.clear();
  const float* source = normed_;
  for (std::size_t span = 0; span < batch_.size(); ++span) {
    const std::size_t n = batch_[span].tokens.size();
    for (std::size_t row = 0; row < n; ++row, source += hidden) {
      const LogitsWanted wanted = batch_[span].wanted;
      if (wanted == LogitsWanted::kNone || (wanted == LogitsWanted::kLast && row + 1 < n)) continue;
      std::copy_n(source, hidden, rows + static_cast<std::int64_t>(waiting.size()) * hidden);
      waiting.push_back({span, row});
      if (waiting.size() == block) flush_logits();
    }
  }
  if (!waiting.empty()) flush_logits();
}

void DecoderPass::flush_logits() {
  const std::int64_t vocab = context_.config.vocab_size;
  auto& waiting = context_.workspace.wanted_rows();
  float* logits = part(context_.workspace.layout().logits);
  kernels::linear(exec_,
                  {.data = part(context_.workspace.layout().logit_rows),
                   .n_rows = static_cast<std::int64_t>(waiting.size()),
                   .width = context_.config.hidden_size},
                  std::array{kernels::Projection{context_.weights.head, logits, vocab}});
  for (const auto& [span, row] : waiting) {
    context_.observer.on_logits(span, row, {logits, static_cast<std::size_t>(vocab)});
    logits += vocab;
  }
  waiting.clear();
}

}  // namespace kvant::model
