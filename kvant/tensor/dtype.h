// Element types of tensors that kernels read and write as they are. (Block-quantised file types
// are a matter of the model room's readers and of the matrix kernels.)
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvant::tensor {

enum class Dtype : std::uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBf16 = 2,
  kI32 = 3,
  kI64 = 4,
  kU8 = 5,
  kI8 = 6,
  kBool = 7,
  kF64 = 8,
  kI16 = 9,
  kU16 = 10,
  kU32 = 11,
  kU64 = 12
};

constexpr std::int64_t bytes_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
    case Dtype::kI64:
    case Dtype::kU64:
      return 8;
    case Dtype::kF32:
    case Dtype::kI32:
    case Dtype::kU32:
      return 4;
    case Dtype::kF16:
    case Dtype::kBf16:
    case Dtype::kI16:
    case Dtype::kU16:
      return 2;
    case Dtype::kU8:
    case Dtype::kI8:
    case Dtype::kBool:
      return 1;
  }
  return 0;
}

// True for the types that weights and activations may have.
constexpr bool is_float(Dtype dtype) {
  return dtype == Dtype::kF32 || dtype == Dtype::kF16 || dtype == Dtype::kBf16;
}

// "f32", "bf16", ...
std::string_view name_of(Dtype dtype);
std::optional<Dtype> dtype_from_name(std::string_view name);

}  // namespace kvant::tensor
