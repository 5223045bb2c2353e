#include "kvant/kernels/numerics_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kvant/base/prng.h"
#include "kvant/kernels/dispatch.h"
#include "kvant/kernels/rotate_rows.h"
#include "kvant/tensor/half.h"

namespace kvant::kernels {
namespace {

using tensor::Dtype;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::array<std::int64_t, 3> kShiftedDeltas = {0, -5, -300};

std::size_t size_of(std::int64_t n) { return static_cast<std::size_t>(n); }

// Numbers as a kernel reads them: narrowed to a type, at a chosen alignment.
class Stored {
 public:
  Stored(Dtype dtype, const std::vector<float>& numbers, Alignment alignment)
      : offset_(alignment == Alignment::kOdd ? 1 : 0),
        bytes_(numbers.size() * size_of(tensor::bytes_of(dtype)) + 1) {
    std::byte* to = bytes_.data() + offset_;
    for (const float number : numbers) {
      const auto put = [&](const auto& value) {
        std::memcpy(to, &value, sizeof(value));
        to += sizeof(value);
      };
      if (dtype == Dtype::kF32) put(number);
      if (dtype == Dtype::kF16) put(tensor::f16_from_f32(number));
      if (dtype == Dtype::kBf16) put(tensor::bf16_from_f32(number));
    }
  }

  std::byte* data() { return bytes_.data() + offset_; }

 private:
  std::size_t offset_;
  std::vector<std::byte> bytes_;
};

std::uint64_t mix(std::initializer_list<std::int64_t> values) {
  std::uint64_t seed = 0;
  for (const std::int64_t value : values) {
    seed = SplitMix64(seed ^ static_cast<std::uint64_t>(value)).next();
  }
  return seed;
}

std::vector<float>& unify_nans(std::vector<float>& numbers) {
  for (float& number : numbers) {
    if (std::isnan(number)) number = kNan;
  }
  return numbers;
}

std::string alignment_text(Alignment alignment) {
  return alignment == Alignment::kOdd ? " odd" : "";
}

// Consecutive visible rows of one page.
struct Piece {
  std::int64_t page = 0;
  Range rows;
  std::int64_t position_delta = 0;
};

std::vector<Piece> pieces_of(const AttentionCase& c) {
  std::vector<Piece> out;
  std::int64_t left = c.rows_before + c.n_rows;
  for (std::int64_t i = 0; left > 0; ++i) {
    Piece piece{.page = i, .rows = {i == 0 ? c.first_row : 0, c.page_rows}};
    if (c.table == PageTableCase::kShifted) {
      // Two pieces a page, with a hole between them and borders at no multiple of anything.
      const std::int64_t hole = c.page_rows / 3;
      piece.page = i / 2;
      piece.rows = i % 2 == 0 ? Range{i % 3, hole + i % 5} : Range{hole + 5, c.page_rows - i % 3};
      piece.position_delta = kShiftedDeltas[size_of(i * 5 % 7 % 3)];
    }
    piece.rows.end = std::min(piece.rows.end, piece.rows.begin + left);
    left -= piece.rows.end - piece.rows.begin;
    out.push_back(piece);
  }
  return out;
}

// One layer's pages: per page the keys of all heads, then the values, NaN where no row is visible.
class Pages {
 public:
  Pages(const AttentionCase& c, std::uint64_t seed) : case_(c) {
    const std::vector<Piece> pieces = pieces_of(c);
    const std::int64_t n_pages = pieces.empty() ? 0 : pieces.back().page + 1;
    for (std::int64_t page = 0; page < n_pages; ++page) {
      add_page(keys_, pieces, page, {c.keys, c.head_dim, seed + 2 * size_of(page)});
      add_page(values_, pieces, page, {c.values, c.value_dim, seed + 2 * size_of(page) + 1});
    }
    for (const Piece& piece : pieces) {
      for (auto* extents : {&key_extents_, &value_extents_}) {
        auto& side = extents == &key_extents_ ? keys_ : values_;
        extents->push_back({.page = side[size_of(piece.page)].data(),
                            .first_row = static_cast<std::int32_t>(piece.rows.begin),
                            .n_rows = static_cast<std::int32_t>(piece.rows.end - piece.rows.begin),
                            .position_delta = piece.position_delta});
      }
    }
  }

  tensor::PagedRows keys() const { return view(key_extents_, case_.keys, case_.head_dim); }
  tensor::PagedRows values() const { return view(value_extents_, case_.values, case_.value_dim); }

 private:
  struct Side {
    Dtype dtype = Dtype::kF32;
    std::int64_t width = 0;
    std::uint64_t seed = 0;
  };

  void add_page(std::vector<Stored>& side, const std::vector<Piece>& pieces, std::int64_t page,
                const Side& of) const {
    std::vector<float> numbers =
        generated_numbers(of.seed, case_.n_kv_heads * case_.page_rows * of.width);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::int64_t row = static_cast<std::int64_t>(i) / of.width % case_.page_rows;
      const bool visible = std::ranges::any_of(pieces, [&](const Piece& piece) {
        return piece.page == page && row >= piece.rows.begin && row < piece.rows.end;
      });
      if (!visible) numbers[i] = kNan;
    }
    side.emplace_back(of.dtype, numbers, Alignment::kAligned);
  }

  tensor::PagedRows view(const std::vector<tensor::Extent>& extents, Dtype dtype,
                         std::int64_t width) const {
    const std::int64_t row_bytes = width * tensor::bytes_of(dtype);
    return {.extents = extents,
            .head_stride_bytes = case_.page_rows * row_bytes,
            .row_bytes = row_bytes,
            .n_heads = static_cast<std::int32_t>(case_.n_kv_heads),
            .row_width = static_cast<std::int32_t>(width),
            .dtype = dtype};
  }

  AttentionCase case_;
  std::vector<Stored> keys_;
  std::vector<Stored> values_;
  std::vector<tensor::Extent> key_extents_;
  std::vector<tensor::Extent> value_extents_;
};

}  // namespace

std::vector<float> generated_numbers(std::uint64_t seed, std::int64_t n) {
  Xoshiro256 random(seed);
  std::vector<float> numbers(size_of(n));
  for (float& number : numbers) {
    const std::uint64_t kind = random.next() % 64;
    number = random.next_signed_float();
    if (kind == 0) number = std::copysign(0.0F, number);
    if (kind == 1) number *= 0x1p-127F;
    if (kind == 2) number *= 0x1p-70F;
    if (kind >= 3 && kind < 8) number *= 16.0F;
  }
  return numbers;
}

std::vector<float> run_case(const KernelTable& table, const MatmulCase& c) {
  const std::uint64_t seed = mix({1, static_cast<int>(c.dtype), c.n_columns, c.width});
  const std::vector<float> x = generated_numbers(seed, c.n_rows * c.width);
  Stored weight(c.dtype, generated_numbers(seed + 1, c.n_columns * c.width), c.alignment);
  const std::vector<float> bias = generated_numbers(seed + 2, c.n_columns);
  const std::int64_t stride = padded_width(c.width);
  std::vector<float> packed(size_of(c.n_rows * stride), kNan);
  for (std::int64_t r = 0; r < c.n_rows; ++r) {
    table.pack_activations(c.dtype, x.data() + r * c.width, c.width, packed.data() + r * stride);
  }
  std::vector<float> panel(size_of(panel_floats(c.width)), kNan);
  std::vector<float> out(size_of(c.n_rows * c.n_columns), kNan);
  const MatmulArgs args{.weight = weight.data(),
                        .dtype = c.dtype,
                        .width = c.width,
                        .x = packed.data(),
                        .x_stride = stride,
                        .n_rows = c.n_rows,
                        .bias = c.n_columns % 2 == 0 ? bias.data() : nullptr,
                        .out = out.data(),
                        .out_stride = c.n_columns,
                        .panel = panel.data()};
  // In two parts that do not meet at a multiple of anything.
  const std::int64_t border = c.n_columns / 3;
  table.matmul(args, {0, border});
  table.matmul(args, {border, c.n_columns});
  return unify_nans(out);
}

std::vector<float> run_case(const KernelTable& table, const RowCase& c) {
  const std::uint64_t seed = mix({2, static_cast<int>(c.kernel), c.n});
  std::vector<float> x = generated_numbers(seed, c.n);
  const std::vector<float> y = generated_numbers(seed + 1, c.n);
  std::vector<float> out(x.size(), kNan);
  switch (c.kernel) {
    case RowKernel::kRmsNorm:
      table.rms_norm(
          {.x = x.data(), .weight = y.data(), .eps = 1e-5F, .n = c.n, .out = out.data()});
      break;
    case RowKernel::kSiluMul:
      table.silu_mul(x.data(), y.data(), c.n, out.data());
      break;
    case RowKernel::kAdd:
      out = y;
      table.add(x.data(), c.n, out.data());
      break;
    case RowKernel::kSoftmax:
      table.softmax(x.data(), c.n, out.data());
      break;
    case RowKernel::kExp32:
      // All over the range and beyond it, NaN and the infinities included.
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (i % 3 == 1) x[i] *= 20.0F;
        if (i % 97 == 13) x[i] = kNan;
        if (i % 97 == 14) x[i] = -std::numeric_limits<float>::infinity();
        if (i % 97 == 15) x[i] = std::numeric_limits<float>::infinity();
      }
      table.exp32(x.data(), c.n, out.data());
      break;
  }
  return unify_nans(out);
}

std::vector<float> run_case(const KernelTable& table, const RopeCase& c) {
  const std::uint64_t seed = mix({3, static_cast<int>(c.pairing), c.n_heads, c.head_dim});
  std::vector<float> x = generated_numbers(seed, c.n_heads * c.head_dim);
  const std::vector<float> cos = generated_numbers(seed + 1, c.head_dim / 2);
  const std::vector<float> sin = generated_numbers(seed + 2, c.head_dim / 2);
  table.rope({.x = x.data(),
              .n_heads = c.n_heads,
              .head_dim = c.head_dim,
              .cos = cos.data(),
              .sin = sin.data(),
              .pairing = c.pairing});
  return unify_nans(x);
}

std::vector<float> run_case(const KernelTable& table, const RotateRowsCase& c) {
  constexpr std::int64_t kRows = 5;
  const std::uint64_t seed =
      mix({9, static_cast<int>(c.dtype), static_cast<int>(c.pairing), c.head_dim});
  const std::int64_t n = kRows * c.head_dim;
  Stored stored(c.dtype, generated_numbers(seed, n), Alignment::kAligned);
  const std::vector<float> cos = generated_numbers(seed + 1, c.head_dim / 2);
  const std::vector<float> sin = generated_numbers(seed + 2, c.head_dim / 2);
  // All rows but the first.
  const tensor::Extent extent{.page = stored.data(), .first_row = 1, .n_rows = kRows - 1};
  rotate_rows(table, {.rows = {.extents = {&extent, 1},
                               .row_bytes = c.head_dim * tensor::bytes_of(c.dtype),
                               .n_heads = 1,
                               .row_width = static_cast<std::int32_t>(c.head_dim),
                               .dtype = c.dtype},
                      .cos = cos.data(),
                      .sin = sin.data(),
                      .pairing = c.pairing});
  std::vector<float> out(size_of(n), kNan);
  table.widen(c.dtype, stored.data(), n, out.data());
  return unify_nans(out);
}

std::vector<float> run_case(const KernelTable& table, const ShortConvCase& c) {
  const std::uint64_t seed = mix({4, c.n_rows, c.n_channels, c.conv_width});
  std::vector<float> bcx = generated_numbers(seed, c.n_rows * 3 * c.n_channels);
  const std::vector<float> weight = generated_numbers(seed + 1, c.conv_width * c.n_channels);
  const std::vector<float> bias = generated_numbers(seed + 2, c.n_channels);
  std::vector<float> state = generated_numbers(seed + 3, (c.conv_width - 1) * c.n_channels);
  std::vector<float> out(size_of(c.n_rows * c.n_channels), kNan);
  const ShortConvArgs args{.bcx = bcx.data(),
                           .weight = weight.data(),
                           .bias = c.n_channels % 2 == 0 ? bias.data() : nullptr,
                           .state = state.data(),
                           .out = out.data(),
                           .n_rows = c.n_rows,
                           .n_channels = c.n_channels,
                           .conv_width = c.conv_width};
  const std::int64_t border = c.n_channels / 3;
  table.short_conv(args, {0, border});
  table.short_conv(args, {border, c.n_channels});
  out.insert(out.end(), state.begin(), state.end());
  return unify_nans(out);
}

std::vector<float> run_case(const KernelTable& table, const AttentionCase& c) {
  const std::uint64_t seed = mix({5, c.n_kv_heads, c.head_dim, c.value_dim, c.page_rows});
  // Queries of other deltas have nothing in common here, so that a wrong choice shows.
  std::array<std::vector<float>, kShiftedDeltas.size()> q;
  std::array<QueryVariant, kShiftedDeltas.size()> queries;
  for (std::size_t i = 0; i < q.size(); ++i) {
    q[i] = generated_numbers(seed - 1 - i, c.n_rows * c.n_heads * c.head_dim);
    queries[i] = {.position_delta = kShiftedDeltas[i], .q = q[i].data()};
  }
  const std::size_t n_variants = c.table == PageTableCase::kShifted ? queries.size() : 1;
  const Pages pages(c, seed);
  std::vector<float> out(size_of(c.n_rows * c.n_heads * c.value_dim), kNan);
  const AttentionArgs args{.queries = std::span(queries).first(n_variants),
                           .keys = pages.keys(),
                           .values = pages.values(),
                           .n_rows = c.n_rows,
                           .n_heads = c.n_heads,
                           .rows_before = c.rows_before,
                           // Small, so that many rows weigh: one that outweighs all hides sums.
                           .scale = 0.03F,
                           .out = out.data()};
  const AttentionShape shape{
      .head_dim = c.head_dim, .value_dim = c.value_dim, .max_extent_rows = c.page_rows};
  std::vector<float> scratch(size_of(attention_part_floats(shape)), kNan);
  for (std::int64_t head = 0; head < c.n_kv_heads; ++head) {
    const AttentionPart part{.key_extents = args.keys.extents.data(),
                             .value_extents = args.values.extents.data(),
                             .n_extents = static_cast<std::int64_t>(args.keys.extents.size()),
                             .queries = args.queries.data(),
                             .n_queries = static_cast<std::int64_t>(args.queries.size()),
                             .max_extent_rows = c.page_rows,
                             .rows = {0, c.n_rows},
                             .kv_head = head};
    table.attention(args, part, scratch.data());
  }
  return unify_nans(out);
}

std::vector<float> run_widen_case(const KernelTable& table, const ConvertCase& c) {
  Stored from(Dtype::kF32, generated_numbers(6, c.n), c.alignment);
  if (c.dtype != Dtype::kF32) {
    for (std::int64_t i = 0; i < c.n; ++i) {
      const auto bits = static_cast<std::uint16_t>(i * 40503 % 65536);
      std::memcpy(from.data() + i * 2, &bits, sizeof(bits));
    }
  }
  std::vector<float> out(size_of(c.n), kNan);
  table.widen(c.dtype, from.data(), c.n, out.data());
  return unify_nans(out);
}

std::vector<std::uint16_t> run_narrow_case(const KernelTable& table, const ConvertCase& c) {
  std::vector<float> from = generated_numbers(7, c.n);
  Xoshiro256 random(8);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto bits = static_cast<std::uint32_t>(random.next());
    if (i % 2 == 0) from[i] = std::bit_cast<float>(bits);
    // Around the range of F16, and halfway between two of its numbers.
    if (i % 4 == 1) from[i] *= 0x1p-12F;
    if (i % 4 == 3) from[i] = std::bit_cast<float>((bits & 0x9FFFE000U) | 0x30001000U);
  }
  const std::int64_t bytes = c.n * tensor::bytes_of(c.dtype);
  std::vector<std::byte> to(size_of(bytes) + 2);
  std::byte* data = to.data() + (c.alignment == Alignment::kOdd ? 1 : 0);
  table.narrow(c.dtype, from.data(), c.n, data);
  std::vector<std::uint16_t> out(size_of(bytes) / 2);
  if (!out.empty()) std::memcpy(out.data(), data, size_of(bytes));
  return out;
}

std::string describe(const MatmulCase& c) {
  return fmt::format("matmul {} rows {} columns {} width {}{}", tensor::name_of(c.dtype), c.n_rows,
                     c.n_columns, c.width, alignment_text(c.alignment));
}

std::string describe(const RowCase& c) {
  constexpr const char* kNames[] = {"rms_norm", "silu_mul", "add", "softmax", "exp32"};
  return fmt::format("{} n {}", kNames[static_cast<std::size_t>(c.kernel)], c.n);
}

std::string describe(const RopeCase& c) {
  return fmt::format("rope {} heads {} head_dim {}",
                     c.pairing == RopePairing::kNeox ? "neox" : "norm", c.n_heads, c.head_dim);
}

std::string describe(const ShortConvCase& c) {
  return fmt::format("short_conv rows {} channels {} width {}", c.n_rows, c.n_channels,
                     c.conv_width);
}

std::string describe(const AttentionCase& c) {
  return fmt::format("attention {}-{} rows {} before {} heads {}/{} dims {}/{} page {} first {}{}",
                     tensor::name_of(c.keys), tensor::name_of(c.values), c.n_rows, c.rows_before,
                     c.n_heads, c.n_kv_heads, c.head_dim, c.value_dim, c.page_rows, c.first_row,
                     c.table == PageTableCase::kShifted ? " shifted" : "");
}

std::string describe(const ConvertCase& c) {
  return fmt::format("convert {} n {}{}", tensor::name_of(c.dtype), c.n,
                     alignment_text(c.alignment));
}

}  // namespace kvant::kernels
