#include "kvant/base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvant {
namespace {

constexpr Error kFull{.code = ErrorCode::kContextFull, .expected = 128};

Result<int> half_of(int n) {
  if (n % 2 != 0) return kFull;
  return n / 2;
}

Result<int> quarter_of(int n) {
  const int half = KVANT_TRY(half_of(n));
  return KVANT_TRY(half_of(half));
}

Status check_even(int n) {
  KVANT_TRY(half_of(n));
  return ok();
}

NamedResult<int> named_quarter_of(int n) { return KVANT_TRY(quarter_of(n)); }

Result<std::unique_ptr<int>> boxed(int n) {
  auto box = std::make_unique<int>(KVANT_TRY(half_of(n)));
  return box;
}

TEST(Result, HoldsAValueOrAnError) {
  const Result<int> value = half_of(8);
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(*value, 4);
  EXPECT_EQ(value.value(), 4);
  const Result<int> error = half_of(7);
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error(), kFull);
  EXPECT_EQ(error.value_or(5), 5);
  EXPECT_EQ(value.value_or(5), 4);
}

TEST(Result, TryGivesTheValueOrReturnsTheError) {
  EXPECT_EQ(quarter_of(8).value(), 2);
  EXPECT_EQ(quarter_of(7).error(), kFull);
  EXPECT_EQ(quarter_of(6).error(), kFull);
  EXPECT_TRUE(check_even(2));
  EXPECT_EQ(check_even(3).error(), kFull);
}

TEST(Result, TryCarriesAnErrorIntoARoomThatNamesThem) {
  const NamedResult<int> result = named_quarter_of(7);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().error(), kFull);
  EXPECT_EQ(result.error().detail(), "");
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = boxed(8);
  ASSERT_TRUE(result);
  EXPECT_EQ(**result, 4);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 4);
}

TEST(Result, ConvertsOnlyWhereTheValueWould) {
  static_assert(std::is_convertible_v<const char*, Result<std::string>>);
  static_assert(std::is_convertible_v<std::unique_ptr<int>, Result<std::shared_ptr<int>>>);
  static_assert(!std::is_convertible_v<int, Result<std::vector<int>>>);
  static_assert(std::is_constructible_v<Result<std::vector<int>>, int>);
  static_assert(std::is_convertible_v<Error, NamedResult<int>>);
}

using ResultDeathTest = ::testing::Test;

TEST(ResultDeathTest, AskingForWhatIsNotThereIsABrokenInvariant) {
  const Result<int> error = kFull;
  const Result<int> value = 1;
  EXPECT_DEATH(static_cast<void>(error.value()), "broken invariant");
  EXPECT_DEATH(static_cast<void>(*error), "broken invariant");
  EXPECT_DEATH(static_cast<void>(value.error()), "broken invariant");
  EXPECT_DEATH(static_cast<void>(ok().error()), "broken invariant");
}

}  // namespace
}  // namespace kvant
