// How the rows of keys and values are stored: the plain element types for now.
//
// A codec is named once, on the command line ("--kv f16") and in a layout; planning, views and
// fingerprints ask this header what a row costs and which element type kernels find there.
#pragma once

#include <cstdint>
#include <string_view>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/tensor/dtype.h"

namespace kvant::codec {

// Numbers are part of files and fingerprints: never changed or reused.
enum class Kind : std::uint8_t { kF32 = 0, kF16 = 1, kBf16 = 2 };

// "f32", "f16" or "bf16".
std::string_view name_of(Kind kind);

// Errors: kUnknownCodec when `name` is none of the above (spelled exactly so).
Result<Kind> kind_from_name(std::string_view name);

// The element type in which kernels read and write a row.
tensor::Dtype dtype_of(Kind kind);

// Bytes of one row of `row_width` numbers of one head.
// Errors: kInvalidArgument{actual: row_width} when negative, kOutOfMemory when the product
// overflows.
Result<Bytes> row_bytes(Kind kind, Elements row_width);

}  // namespace kvant::codec
