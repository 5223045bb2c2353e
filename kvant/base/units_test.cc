#include "kvant/base/units.h"

#include <gtest/gtest.h>

#include <concepts>

namespace kvant {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) { a + b; };
template <class A, class B>
concept Subtractable = requires(A a, B b) { a - b; };
template <class A, class B>
concept Comparable = requires(A a, B b) { a < b; };

// What must not compile is the point of these types.
static_assert(!Addable<Position, Position>);
static_assert(!Addable<Tokens, Bytes>);
static_assert(!Addable<Position, Rows>);
static_assert(!Addable<Position, int>);
static_assert(!Addable<Tokens, Position>);
static_assert(!Subtractable<Tokens, Position>);
static_assert(!Subtractable<Position, Slot>);
static_assert(!Comparable<Position, Slot>);
static_assert(!Comparable<Tokens, Rows>);
static_assert(!std::convertible_to<int, Position>);
static_assert(!std::convertible_to<int, Bytes>);
static_assert(!std::convertible_to<Position, std::int64_t>);
static_assert(!std::constructible_from<Bytes, Elements>);
static_assert(!std::constructible_from<Slot, Position>);

static_assert(std::same_as<decltype(Position(7) - Position(2)), Tokens>);
static_assert(std::same_as<decltype(LayerIndex(7) - LayerIndex(2)), Layers>);
static_assert(sizeof(Position) == sizeof(std::int64_t));

TEST(Position, DiffersFromAnotherByTokensAndMovesByThem) {
  const Position p(7);
  EXPECT_EQ(p - Position(2), Tokens(5));
  EXPECT_EQ(p + Tokens(3), Position(10));
  EXPECT_EQ(p - Tokens(3), Position(4));
  EXPECT_EQ(Position(2) - p, Tokens(-5));
}

TEST(Position, AdvancesInPlace) {
  Position p(7);
  p += Tokens(3);
  EXPECT_EQ(++p, Position(11));
  EXPECT_EQ(p.index(), 11U);
}

TEST(Quantity, AddsSubtractsAndScales) {
  Bytes bytes(10);
  bytes += Bytes(5);
  bytes -= Bytes(3);
  EXPECT_EQ(bytes, Bytes(12));
  EXPECT_EQ(bytes * 3, Bytes(36));
  EXPECT_EQ(bytes.size(), 12U);
  EXPECT_LT(Bytes(11), bytes);
}

TEST(Quantity, StartsAtZero) {
  EXPECT_EQ(Tokens(), Tokens(0));
  EXPECT_EQ(Position(), Position(0));
}

}  // namespace
}  // namespace kvant
