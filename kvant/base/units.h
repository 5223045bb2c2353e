// Strong numbers: positions, token counts, bytes and indices that do not mix by accident.
//
// A Quantity counts things (Tokens, Bytes, Rows): same kinds add and subtract. An Ordinal names one
// of a sequence (Position, LayerIndex, PageIndex): two of a kind differ by a Quantity, and an
// Ordinal moves by one; two Ordinals do not add.
//
//   Position p{7};  p + Tokens{3} == Position{10};  p - Position{2} == Tokens{5};
//
// The operators do not check for overflow: they are for numbers that have passed a border. What
// comes from a file, a flag or a request goes through base/checked.h first.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace kvant {

template <class Tag>
class Quantity {
 public:
  using rep = std::int64_t;
  constexpr Quantity() = default;
  constexpr explicit Quantity(rep value) : value_(value) {}

  constexpr rep value() const { return value_; }
  constexpr std::size_t size() const { return static_cast<std::size_t>(value_); }

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.value_ + b.value_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value_ - b.value_);
  }
  friend constexpr Quantity operator*(Quantity a, rep n) { return Quantity(a.value_ * n); }
  constexpr Quantity& operator+=(Quantity other) { return *this = *this + other; }
  constexpr Quantity& operator-=(Quantity other) { return *this = *this - other; }

 private:
  rep value_ = 0;
};

template <class Tag, class Difference>
class Ordinal {
 public:
  using rep = std::int64_t;
  constexpr Ordinal() = default;
  constexpr explicit Ordinal(rep value) : value_(value) {}

  constexpr rep value() const { return value_; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(value_); }

  friend constexpr auto operator<=>(Ordinal, Ordinal) = default;
  friend constexpr Difference operator-(Ordinal a, Ordinal b) {
    return Difference(a.value_ - b.value_);
  }
  friend constexpr Ordinal operator+(Ordinal a, Difference d) {
    return Ordinal(a.value_ + d.value());
  }
  friend constexpr Ordinal operator-(Ordinal a, Difference d) {
    return Ordinal(a.value_ - d.value());
  }
  constexpr Ordinal& operator+=(Difference d) { return *this = *this + d; }
  constexpr Ordinal& operator++() { return ++value_, *this; }

 private:
  rep value_ = 0;
};

using Tokens = Quantity<struct TokensTag>;             // a number of tokens, also of positions
using Position = Ordinal<struct PositionTag, Tokens>;  // absolute, 0 is the first token
using Rows = Quantity<struct RowsTag>;                 // rows of a component
using Slot = Ordinal<struct SlotTag, Rows>;            // a row's place in its ring or page
using Layers = Quantity<struct LayersTag>;
using LayerIndex = Ordinal<struct LayerTag, Layers>;
using Heads = Quantity<struct HeadsTag>;
using HeadIndex = Ordinal<struct HeadTag, Heads>;
using Pages = Quantity<struct PagesTag>;
using PageIndex = Ordinal<struct PageTag, Pages>;
using Elements = Quantity<struct ElementsTag>;  // numbers in a tensor; Bytes only by checked_bytes
using Bytes = Quantity<struct BytesTag>;

using TokenId = std::int32_t;  // an index into the vocabulary; files and the ABI use 32 bits

}  // namespace kvant
