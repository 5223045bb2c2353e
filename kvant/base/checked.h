// Checked arithmetic for numbers that come from files, flags and requests.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>

#include "kvant/base/result.h"
#include "kvant/base/units.h"

namespace kvant {

template <std::integral T>
constexpr std::optional<T> checked_add(T a, T b) {
  T out{};
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

template <std::integral T>
constexpr std::optional<T> checked_mul(T a, T b) {
  T out{};
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// The product of all factors, none if it does not fit.
template <std::integral T>
constexpr std::optional<T> checked_product(std::initializer_list<T> factors) {
  T product{1};
  for (const T factor : factors) {
    const auto next = checked_mul(product, factor);
    if (!next) return std::nullopt;
    product = *next;
  }
  return product;
}

// The smallest multiple of `step` that is at least `value`, none if it does not fit or step is 0.
template <std::unsigned_integral T>
constexpr std::optional<T> checked_round_up(T value, T step) {
  if (step == 0) return std::nullopt;
  const auto raised = checked_add<T>(value, static_cast<T>(step - 1));
  if (!raised) return std::nullopt;
  return static_cast<T>(*raised / step * step);
}

// Bytes of `elements` numbers of `element_bytes` each.
// Errors: kOutOfMemory{actual: UINT64_MAX} when the product does not fit or a factor is negative.
inline Result<Bytes> checked_bytes(Elements elements, std::int64_t element_bytes) {
  const auto bytes = checked_mul(elements.value(), element_bytes);
  if (!bytes || elements.value() < 0 || element_bytes < 0) {
    return Error{.code = ErrorCode::kOutOfMemory,
                 .actual = std::numeric_limits<std::uint64_t>::max()};
  }
  return Bytes(*bytes);
}

}  // namespace kvant
