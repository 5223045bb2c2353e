#include "kvant/codec/kind.h"

#include <array>

#include "kvant/base/checked.h"

namespace kvant::codec {
namespace {

constexpr std::array kKinds = {Kind::kF32, Kind::kF16, Kind::kBf16};

}  // namespace

std::string_view name_of(Kind kind) { return tensor::name_of(dtype_of(kind)); }

Result<Kind> kind_from_name(std::string_view name) {
  for (const Kind kind : kKinds) {
    if (name == name_of(kind)) return kind;
  }
  return Error{.code = ErrorCode::kUnknownCodec};
}

tensor::Dtype dtype_of(Kind kind) {
  switch (kind) {
    case Kind::kF32:
      return tensor::Dtype::kF32;
    case Kind::kF16:
      return tensor::Dtype::kF16;
    case Kind::kBf16:
      return tensor::Dtype::kBf16;
  }
  return tensor::Dtype::kF32;
}

Result<Bytes> row_bytes(Kind kind, Elements row_width) {
  if (row_width.value() < 0) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .actual = static_cast<std::uint64_t>(row_width.value())};
  }
  return checked_bytes(row_width, tensor::bytes_of(dtype_of(kind)));
}

}  // namespace kvant::codec
