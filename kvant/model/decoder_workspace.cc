#include "kvant/model/decoder_workspace.h"

#include <algorithm>
#include <limits>
#include <new>
#include <optional>

#include "kvant/base/checked.h"
#include "kvant/state/layout.h"

namespace kvant::model {
namespace {

constexpr std::int64_t kAlignFloats = 16;  // 64 bytes

// Adds up parts; remembers whether anything overflowed.
class Cutter {
 public:
  // Place of `rows` rows of `width` floats.
  std::int64_t take(std::int64_t rows, std::int64_t width) {
    const std::int64_t place = end_;
    const auto n = checked_mul(rows, width);
    const auto padded = n ? checked_add(*n, kAlignFloats - 1) : std::nullopt;
    const auto end =
        padded ? checked_add(end_, *padded / kAlignFloats * kAlignFloats) : std::nullopt;
    fits_ = fits_ && end.has_value();
    end_ = end.value_or(0);
    return place;
  }
  std::int64_t end() const { return end_; }
  bool fits() const { return fits_; }

 private:
  std::int64_t end_ = 0;
  bool fits_ = true;
};

std::int64_t widest_kv(const ModelConfig& config) {
  std::int64_t widest = 0;
  for (const LayerConfig& layer : config.layers) {
    widest = std::max(widest, layer.n_kv_heads * config.head_dim);
  }
  return widest;
}

std::int64_t kernel_floats(const ModelConfig& config, const WorkspaceShape& shape) {
  const std::int64_t q_width = config.n_heads * config.head_dim;
  const std::int64_t linear = kernels::linear_scratch_floats(
      {.max_rows = std::max(shape.max_rows.value(), shape.max_logit_rows.value()),
       .max_width = std::max({config.hidden_size, config.ffn_dim, q_width}),
       .n_threads = shape.n_threads});
  const std::int64_t attention = kernels::attention_scratch_floats(
      {.rows = {.head_dim = config.head_dim,
                .value_dim = config.head_dim,
                .max_extent_rows = state::Layout::kMaxPagePositions},
       .n_threads = shape.n_threads});
  return std::max(linear, attention);
}

}  // namespace

Result<DecoderWorkspaceLayout> lay_out_workspace(const ModelConfig& config,
                                                 const WorkspaceShape& shape) {
  const std::int64_t rows = shape.max_rows.value();
  const std::int64_t logit_rows = shape.max_logit_rows.value();
  const std::int64_t variants = shape.max_query_variants;
  constexpr std::int64_t kMostRows = std::int64_t{1}
                                     << 24;  // keeps kernels' sums far from overflow
  const std::int64_t least =
      std::min({rows, logit_rows, variants, shape.max_spans, std::int64_t{shape.n_threads}});
  const std::int64_t most = std::max({rows, logit_rows, variants, shape.max_spans});
  if (least < 1 || most > kMostRows) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .component = ComponentKind::kScratch,
                 .actual = static_cast<std::uint64_t>(least < 1 ? least : most),
                 .expected = static_cast<std::uint64_t>(kMostRows)};
  }
  const std::int64_t q_width = config.n_heads * config.head_dim;
  DecoderWorkspaceLayout out;
  out.max_kv_width = widest_kv(config);
  // q, k and v are separate parts of `wide`, as are gate and up.
  out.wide_width =
      std::max({3 * config.hidden_size, q_width + 2 * out.max_kv_width, 2 * config.ffn_dim});
  Cutter cut;
  out.hidden = cut.take(rows, config.hidden_size);
  out.normed = cut.take(rows, config.hidden_size);
  out.wide = cut.take(rows, out.wide_width);
  out.mixed = cut.take(rows, std::max(q_width, config.hidden_size));
  out.cos = cut.take(variants * rows, config.head_dim / 2);
  out.sin = cut.take(variants * rows, config.head_dim / 2);
  out.turned = cut.take((variants - 1) * rows, q_width);
  out.logit_rows = cut.take(logit_rows, config.hidden_size);
  out.logits = cut.take(logit_rows, config.vocab_size);
  out.kernels = cut.take(1, kernel_floats(config, shape));
  out.end = cut.end();
  if (!cut.fits() || out.end > std::numeric_limits<std::int64_t>::max() / 8) {
    return Error{.code = ErrorCode::kOutOfMemory,
                 .component = ComponentKind::kScratch,
                 .actual = std::numeric_limits<std::uint64_t>::max()};
  }
  return out;
}

Bytes workspace_bytes_of(const DecoderWorkspaceLayout& layout, const WorkspaceShape& shape) {
  constexpr std::int64_t kArgs = sizeof(kernels::AttentionArgs) + sizeof(kernels::ShortConvArgs) +
                                 sizeof(std::span<const kernels::QueryVariant>);
  constexpr std::int64_t kVariant = sizeof(kernels::QueryVariant);
  constexpr std::int64_t kWanted = sizeof(DecoderWorkspace::WantedRow);
  return Bytes(layout.end * static_cast<std::int64_t>(sizeof(float)) +
               shape.max_spans * (kArgs + shape.max_query_variants * kVariant) +
               shape.max_logit_rows.value() * kWanted);
}

Result<std::unique_ptr<Workspace>> DecoderWorkspace::create(const ModelConfig& config,
                                                            const WorkspaceShape& shape) {
  const DecoderWorkspaceLayout layout = KVANT_TRY(lay_out_workspace(config, shape));
  auto floats = KVANT_TRY(tensor::Buffer<float>::create(Elements(layout.end)));
  try {
    std::unique_ptr<DecoderWorkspace> workspace(
        new DecoderWorkspace(shape, layout, std::move(floats)));
    const auto n_spans = static_cast<std::size_t>(shape.max_spans);
    workspace->attention_args_.reserve(n_spans);
    workspace->conv_args_.reserve(n_spans);
    workspace->query_variants_.reserve(n_spans *
                                       static_cast<std::size_t>(shape.max_query_variants));
    workspace->span_queries_.reserve(n_spans);
    workspace->wanted_rows_.reserve(static_cast<std::size_t>(shape.max_logit_rows.value()));
    return std::unique_ptr<Workspace>(std::move(workspace));
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory,
                 .component = ComponentKind::kScratch,
                 .actual = workspace_bytes_of(layout, shape).size()};
  }
}

}  // namespace kvant::model
