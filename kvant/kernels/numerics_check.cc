#include "kvant/kernels/numerics_check.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>

#include "kvant/kernels/math.h"
#include "kvant/kernels/numerics_cases.h"
#include "kvant/kernels/rope_frequencies.h"

namespace kvant::kernels {
namespace {

using tensor::Dtype;

constexpr Dtype kFloatTypes[] = {Dtype::kF32, Dtype::kF16, Dtype::kBf16};
constexpr std::int64_t kSizes[] = {1, 3, 15, 16, 17, 31, 33, 64, 100, 255, 256, 257};

// Gathers what the cases of one digest write.
class Outputs {
 public:
  template <class T>
  void add(const std::vector<T>& numbers) {
    const auto bytes = std::as_bytes(std::span(numbers));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  NumericsDigest digest(std::string name) const {
    return {std::move(name), xxh3_128(bytes_).hex()};
  }

 private:
  std::vector<std::byte> bytes_;
};

void add_matmul(const KernelTable& table, std::vector<NumericsDigest>& out) {
  for (const Dtype dtype : kFloatTypes) {
    Outputs outputs;
    for (const std::int64_t width : kSizes) {
      for (const std::int64_t n_rows : {1, 2, 3, 6, 9}) {
        outputs.add(run_case(table, MatmulCase{.dtype = dtype,
                                               .n_rows = n_rows,
                                               .n_columns = 13 + n_rows,
                                               .width = width,
                                               .alignment = Alignment::kOdd}));
      }
    }
    outputs.add(
        run_case(table, MatmulCase{.dtype = dtype, .n_rows = 17, .n_columns = 40, .width = 1040}));
    out.push_back(outputs.digest(fmt::format("matmul/{}", tensor::name_of(dtype))));
  }
}

void add_rows(const KernelTable& table, std::vector<NumericsDigest>& out) {
  constexpr std::pair<RowKernel, const char*> kKernels[] = {{RowKernel::kRmsNorm, "rms_norm"},
                                                            {RowKernel::kSiluMul, "silu_mul"},
                                                            {RowKernel::kAdd, "add"},
                                                            {RowKernel::kSoftmax, "softmax"},
                                                            {RowKernel::kExp32, "exp32"}};
  for (const auto& [kernel, name] : kKernels) {
    Outputs outputs;
    for (const std::int64_t n : kSizes) outputs.add(run_case(table, RowCase{kernel, n}));
    outputs.add(run_case(table, RowCase{kernel, 10007}));
    out.push_back(outputs.digest(name));
  }
}

void add_rope(const KernelTable& table, std::vector<NumericsDigest>& out) {
  constexpr std::pair<RopePairing, const char*> kPairings[] = {{RopePairing::kNeox, "rope/neox"},
                                                               {RopePairing::kNorm, "rope/norm"}};
  for (const auto& [pairing, name] : kPairings) {
    Outputs outputs;
    for (const std::int64_t head_dim : {2, 14, 16, 30, 64, 80, 128}) {
      outputs.add(
          run_case(table, RopeCase{.pairing = pairing, .n_heads = 3, .head_dim = head_dim}));
    }
    out.push_back(outputs.digest(name));
  }
}

void add_rotate_rows(const KernelTable& table, std::vector<NumericsDigest>& out) {
  for (const Dtype dtype : kFloatTypes) {
    Outputs outputs;
    for (const RopePairing pairing : {RopePairing::kNeox, RopePairing::kNorm}) {
      for (const std::int64_t head_dim : {2, 14, 64, 80, 130}) {
        outputs.add(run_case(table, RotateRowsCase{dtype, pairing, head_dim}));
      }
    }
    out.push_back(outputs.digest(fmt::format("rotate_rows/{}", tensor::name_of(dtype))));
  }
}

void add_short_conv(const KernelTable& table, std::vector<NumericsDigest>& out) {
  Outputs outputs;
  for (const std::int64_t n_channels : kSizes) {
    for (const std::int64_t n_rows : {1, 2, 7}) {
      for (const std::int64_t conv_width : {2, 3, 4}) {
        outputs.add(run_case(table, ShortConvCase{n_rows, n_channels, conv_width}));
      }
    }
  }
  out.push_back(outputs.digest("short_conv"));
}

void add_conversions(const KernelTable& table, std::vector<NumericsDigest>& out) {
  for (const Dtype dtype : kFloatTypes) {
    Outputs widened;
    Outputs narrowed;
    for (const std::int64_t n : {1, 17, 65536}) {
      const ConvertCase c{.dtype = dtype, .n = n, .alignment = Alignment::kOdd};
      widened.add(run_widen_case(table, c));
      narrowed.add(run_narrow_case(table, c));
    }
    out.push_back(widened.digest(fmt::format("widen/{}", tensor::name_of(dtype))));
    out.push_back(narrowed.digest(fmt::format("narrow/{}", tensor::name_of(dtype))));
  }
}

void add_attention(const KernelTable& table, std::vector<NumericsDigest>& out) {
  for (const Dtype keys : kFloatTypes) {
    for (const Dtype values : kFloatTypes) {
      Outputs outputs;
      AttentionCase c{.keys = keys, .values = values, .n_heads = 6, .n_kv_heads = 2};
      for (const std::int64_t head_dim : {1, 17, 64, 80}) {
        for (const std::int64_t rows_before : {0, 15, 100}) {
          c.head_dim = head_dim;
          c.value_dim = 81 - head_dim;
          c.rows_before = rows_before;
          c.n_rows = 1 + head_dim % 7;
          c.page_rows = 32;
          c.first_row = head_dim % 5;
          outputs.add(run_case(table, c));
        }
      }
      out.push_back(outputs.digest(
          fmt::format("attention/{}-{}", tensor::name_of(keys), tensor::name_of(values))));
    }
  }
}

void add_shifted_attention(const KernelTable& table, std::vector<NumericsDigest>& out) {
  for (const Dtype keys : kFloatTypes) {
    Outputs outputs;
    AttentionCase c{.keys = keys, .values = Dtype::kF16, .n_heads = 6, .n_kv_heads = 2};
    c.table = PageTableCase::kShifted;
    c.page_rows = 64;
    for (const std::int64_t head_dim : {17, 64}) {
      for (const std::int64_t rows_before : {0, 20, 150}) {
        c.head_dim = head_dim;
        c.value_dim = head_dim;
        c.rows_before = rows_before;
        c.n_rows = 1 + rows_before / 4;
        outputs.add(run_case(table, c));
      }
    }
    out.push_back(outputs.digest(fmt::format("attention_shifted/{}", tensor::name_of(keys))));
  }
}

// Not of a table, but part of what makes two machines agree.
void add_math(std::vector<NumericsDigest>& out) {
  Outputs outputs;
  for (int i = -2000; i <= 2000; ++i) {
    const double x = i * 0.35;
    const SinCos turned = sincos64(x * 1e5);
    const double positive = exp64(x);
    outputs.add(std::vector<double>{positive, log64(positive), pow64(1e6, i / 2000.0), turned.sin,
                                    turned.cos});
  }
  out.push_back(outputs.digest("math"));
  Outputs angles;
  const auto frequencies = RopeFrequencies::create({.theta = 1e6, .head_dim = 64});
  if (frequencies) {
    for (const std::int64_t position : {0, 1, 127, 128, 4095, 131071, 1000000}) {
      std::vector<float> turned(static_cast<std::size_t>(2 * frequencies->width()));
      frequencies->angles(Position(position), turned.data(), turned.data() + frequencies->width());
      angles.add(turned);
    }
  }
  out.push_back(angles.digest("rope_frequencies"));
}

}  // namespace

std::vector<NumericsDigest> numerics_digests(const KernelTable& table) {
  std::vector<NumericsDigest> out;
  add_matmul(table, out);
  add_rows(table, out);
  add_rope(table, out);
  add_short_conv(table, out);
  add_conversions(table, out);
  add_attention(table, out);
  add_shifted_attention(table, out);
  add_rotate_rows(table, out);
  add_math(out);
  return out;
}

NamedStatus check_numerics(const KernelTable& table, const std::vector<NumericsDigest>& expected) {
  for (const NumericsDigest& digest : numerics_digests(table)) {
    bool found = false;
    for (const NumericsDigest& wanted : expected) found = found || wanted == digest;
    if (!found) {
      return NamedError(Error{.code = ErrorCode::kDigestMismatch},
                        fmt::format("{}: {}", table.name, digest.name));
    }
  }
  return {};
}

std::string numerics_json(const std::vector<NumericsDigest>& digests) {
  nlohmann::ordered_json document;
  document["numerics"] = kNumericsVersion;
  document["digests"] = nlohmann::ordered_json::object();
  for (const NumericsDigest& digest : digests) document["digests"][digest.name] = digest.hex;
  return document.dump(2) + "\n";
}

NamedResult<std::vector<NumericsDigest>> parse_numerics_json(std::string_view text) {
  const auto document = nlohmann::json::parse(text, nullptr, false);
  if (document.is_discarded()) return NamedError(Error{.code = ErrorCode::kBadJson});
  NamedError misshapen(Error{.code = ErrorCode::kBadFormat}, "numerics digests");
  if (!document.is_object()) return misshapen;
  const auto version = document.find("numerics");
  const auto digests = document.find("digests");
  if (version == document.end() || !version->is_string()) return misshapen;
  if (digests == document.end() || !digests->is_object()) return misshapen;
  if (version->get<std::string>() != kNumericsVersion) {
    return NamedError(Error{.code = ErrorCode::kBadValue},
                      fmt::format("numerics version {}", version->get<std::string>()));
  }
  std::vector<NumericsDigest> out;
  for (const auto& [name, hex] : digests->items()) {
    if (!hex.is_string()) return misshapen;
    out.push_back({name, hex.get<std::string>()});
  }
  return out;
}

}  // namespace kvant::kernels
