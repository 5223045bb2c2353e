// Generated inputs for every kernel, the same on every machine: what the digests are made of and
// what the tests compare targets with.
//
// A case says sizes and types; run_case makes its inputs from a seed that depends on the case
// alone, runs one kernel of a table and returns all that it wrote. Inputs mix magnitudes, both
// zeros and subnormal numbers, so that another order of roundings shows. Memory that a kernel must
// not read holds NaNs, pointers are unaligned where a case says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvant/kernels/kernel_table.h"
#include "kvant/tensor/dtype.h"

namespace kvant::kernels {

// Bytes from an allocation's start to the data, for kernels that take any alignment.
enum class Alignment : std::uint8_t { kAligned, kOdd };

struct MatmulCase {
  tensor::Dtype dtype = tensor::Dtype::kF32;
  std::int64_t n_rows = 1;
  std::int64_t n_columns = 1;
  std::int64_t width = 1;
  Alignment alignment = Alignment::kAligned;
};

enum class RowKernel : std::uint8_t { kRmsNorm, kSiluMul, kAdd, kSoftmax, kExp32 };

struct RowCase {
  RowKernel kernel = RowKernel::kRmsNorm;
  std::int64_t n = 1;
};

struct ConvertCase {
  tensor::Dtype dtype = tensor::Dtype::kF16;
  std::int64_t n = 1;
  Alignment alignment = Alignment::kAligned;
};

struct RopeCase {
  RopePairing pairing = RopePairing::kNeox;
  std::int64_t n_heads = 1;
  std::int64_t head_dim = 2;
};

// Stored rows of one head, turned in place.
struct RotateRowsCase {
  tensor::Dtype dtype = tensor::Dtype::kF32;
  RopePairing pairing = RopePairing::kNeox;
  std::int64_t head_dim = 2;
};

struct ShortConvCase {
  std::int64_t n_rows = 1;
  std::int64_t n_channels = 1;
  std::int64_t conv_width = 3;
};

// How the visible rows lie in pages.
enum class PageTableCase : std::uint8_t {
  kWhole,    // an extent a page
  kShifted,  // two extents a page with a hole between, three position deltas in no order
};

struct AttentionCase {
  tensor::Dtype keys = tensor::Dtype::kF32;
  tensor::Dtype values = tensor::Dtype::kF32;
  std::int64_t n_rows = 1;
  std::int64_t rows_before = 0;
  std::int64_t n_heads = 1;
  std::int64_t n_kv_heads = 1;
  std::int64_t head_dim = 16;
  std::int64_t value_dim = 16;
  std::int64_t page_rows = 128;
  std::int64_t first_row = 0;  // rows of the first page that the view leaves out (kWhole)
  PageTableCase table = PageTableCase::kWhole;  // kShifted wants pages of at least 32 rows
};

// What the kernel wrote. NaNs are all made the same one: their payload is no promise.
std::vector<float> run_case(const KernelTable& table, const MatmulCase& c);
std::vector<float> run_case(const KernelTable& table, const RowCase& c);
std::vector<float> run_case(const KernelTable& table, const RopeCase& c);
std::vector<float> run_case(const KernelTable& table, const RotateRowsCase& c);
std::vector<float> run_case(const KernelTable& table, const ShortConvCase& c);
std::vector<float> run_case(const KernelTable& table, const AttentionCase& c);
// Widens every kind of bit pattern; then narrows every kind of number.
std::vector<float> run_widen_case(const KernelTable& table, const ConvertCase& c);
std::vector<std::uint16_t> run_narrow_case(const KernelTable& table, const ConvertCase& c);

// A case in words, for messages: "matmul f16 rows 3 columns 5 width 17 odd".
std::string describe(const MatmulCase& c);
std::string describe(const RowCase& c);
std::string describe(const RopeCase& c);
std::string describe(const ShortConvCase& c);
std::string describe(const AttentionCase& c);
std::string describe(const ConvertCase& c);

// n numbers of mixed magnitude, with zeros of both signs and a few subnormal ones.
std::vector<float> generated_numbers(std::uint64_t seed, std::int64_t n);

}  // namespace kvant::kernels
