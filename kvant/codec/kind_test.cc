#include "kvant/codec/kind.h"

#include <gtest/gtest.h>

#include <limits>

namespace kvant::codec {
namespace {

TEST(CodecKind, NamesAreThoseOfTheCommandLineAndReadBack) {
  EXPECT_EQ(name_of(Kind::kF32), "f32");
  EXPECT_EQ(name_of(Kind::kF16), "f16");
  EXPECT_EQ(name_of(Kind::kBf16), "bf16");
  for (const Kind kind : {Kind::kF32, Kind::kF16, Kind::kBf16}) {
    const auto read = kind_from_name(name_of(kind));
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, kind);
  }
}

TEST(CodecKind, AnyOtherNameIsUnknown) {
  for (const char* name : {"", "F16", "f16 ", "f64", "i8", "q9", "float"}) {
    const auto read = kind_from_name(name);
    ASSERT_FALSE(read) << name;
    EXPECT_EQ(read.error().code, ErrorCode::kUnknownCodec);
  }
}

TEST(CodecKind, ARowCostsItsNumbersTimesTheirSize) {
  EXPECT_EQ(*row_bytes(Kind::kF32, Elements(64)), Bytes(256));
  EXPECT_EQ(*row_bytes(Kind::kF16, Elements(64)), Bytes(128));
  EXPECT_EQ(*row_bytes(Kind::kBf16, Elements(1)), Bytes(2));
  EXPECT_EQ(dtype_of(Kind::kBf16), tensor::Dtype::kBf16);
}

TEST(CodecKind, ARowThatCannotBeCountedIsRefused) {
  const Elements huge(std::numeric_limits<std::int64_t>::max() / 2);
  EXPECT_EQ(row_bytes(Kind::kF32, huge).error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(row_bytes(Kind::kF32, Elements(-1)).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvant::codec
