#include "kvant/tensor/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace kvant::tensor {
namespace {

static_assert(!std::is_copy_constructible_v<Buffer<float>>);
static_assert(std::is_nothrow_move_constructible_v<Buffer<float>>);
static_assert(std::is_nothrow_move_assignable_v<Buffer<float>>);

template <class T>
Buffer<T> made(std::int64_t n) {
  auto buffer = Buffer<T>::create(Elements(n));
  EXPECT_TRUE(buffer) << describe(buffer.error());
  return std::move(buffer).value();
}

TEST(Buffer, IsZeroedAndAlignedWhateverItsSize) {
  for (const std::int64_t n : {1, 2, 15, 16, 17, 1000}) {
    const Buffer<float> buffer = made<float>(n);
    EXPECT_EQ(buffer.size(), static_cast<std::size_t>(n));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0U);
    for (const float x : buffer.span()) EXPECT_EQ(x, 0.0F);
  }
}

TEST(Buffer, ZeroElementsAreAnEmptySpan) {
  EXPECT_TRUE(made<double>(0).span().empty());
  EXPECT_TRUE(Buffer<double>().span().empty());
}

TEST(Buffer, EveryElementIsItsOwn) {
  Buffer<std::int16_t> buffer = made<std::int16_t>(33);
  for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<std::int16_t>(i);
  for (std::size_t i = 0; i < buffer.size(); ++i) EXPECT_EQ(buffer.span()[i], i);
}

TEST(Buffer, MovingLeavesAnEmptyOneBehind) {
  Buffer<int> first = made<int>(3);
  first[2] = 7;
  Buffer<int> second = std::move(first);
  EXPECT_EQ(second[2], 7);
  EXPECT_TRUE(first.span().empty());  // NOLINT(bugprone-use-after-move): that is the question
  first = std::move(second);
  EXPECT_EQ(first.size(), 3U);
  EXPECT_TRUE(second.span().empty());  // NOLINT(bugprone-use-after-move)
}

TEST(Buffer, SizesThatDoNotFitAreOutOfMemory) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t n : {kMost, kMost / 4, std::int64_t{-1}}) {
    const auto buffer = Buffer<double>::create(Elements(n));
    ASSERT_FALSE(buffer) << n;
    EXPECT_EQ(buffer.error().code, ErrorCode::kOutOfMemory);
    EXPECT_EQ(buffer.error().actual, std::numeric_limits<std::uint64_t>::max());
  }
}

TEST(Buffer, WhatTheMachineRefusesSaysHowMuchWasAsked) {
  constexpr std::int64_t kExbibyte = std::int64_t{1} << 60;
  const auto buffer = Buffer<std::byte>::create(Elements(kExbibyte));
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(buffer.error().actual, static_cast<std::uint64_t>(kExbibyte));
}

}  // namespace
}  // namespace kvant::tensor
