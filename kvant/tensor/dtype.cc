#include "kvant/tensor/dtype.h"

#include <array>
#include <cstddef>

namespace kvant::tensor {
namespace {

constexpr std::array<std::string_view, 13> kNames = {
    "f32", "f16", "bf16", "i32", "i64", "u8", "i8", "bool", "f64", "i16", "u16", "u32", "u64"};

}  // namespace

std::string_view name_of(Dtype dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

}  // namespace kvant::tensor
