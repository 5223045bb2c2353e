#include "kvant/tensor/dtype.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace kvant::tensor {
namespace {

// Numbers are part of file formats and digests: they never change.
constexpr Dtype kAll[] = {Dtype::kF32, Dtype::kF16, Dtype::kBf16, Dtype::kI32, Dtype::kI64,
                          Dtype::kU8,  Dtype::kI8,  Dtype::kBool, Dtype::kF64, Dtype::kI16,
                          Dtype::kU16, Dtype::kU32, Dtype::kU64};

TEST(Dtype, NumbersAreInTheOrderTheyWereAdded) {
  int number = 0;
  for (const Dtype dtype : kAll) EXPECT_EQ(static_cast<int>(dtype), number++);
}

TEST(Dtype, NamesSayKindAndBits) {
  const std::map<std::string_view, std::int64_t> bytes = {
      {"f64", 8}, {"i64", 8}, {"u64", 8}, {"f32", 4},  {"i32", 4}, {"u32", 4}, {"f16", 2},
      {"i16", 2}, {"u16", 2}, {"i8", 1},  {"bf16", 2}, {"u8", 1},  {"bool", 1}};
  std::set<std::string_view> names;
  for (const Dtype dtype : kAll) {
    names.insert(name_of(dtype));
    ASSERT_TRUE(bytes.contains(name_of(dtype))) << name_of(dtype);
    EXPECT_EQ(bytes_of(dtype), bytes.at(name_of(dtype)));
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  }
  EXPECT_EQ(names.size(), std::size(kAll));
}

TEST(Dtype, UnknownNamesAndNumbersAreNone) {
  for (const std::string_view name : {"", "F32", "f32 ", "f8", "unknown"}) {
    EXPECT_EQ(dtype_from_name(name), std::nullopt) << name;
  }
  EXPECT_EQ(name_of(static_cast<Dtype>(99)), "unknown");
  EXPECT_EQ(bytes_of(static_cast<Dtype>(99)), 0);
}

TEST(Dtype, OnlyThreeAreForWeightsAndActivations) {
  for (const Dtype dtype : kAll) {
    const bool expected = dtype == Dtype::kF32 || dtype == Dtype::kF16 || dtype == Dtype::kBf16;
    EXPECT_EQ(is_float(dtype), expected) << name_of(dtype);
  }
}

}  // namespace
}  // namespace kvant::tensor
