// Result<T, E>: a value or an error, with the member names of std::expected (which libstdc++ 12
// lacks). Result and Status must not be dropped.
//
//   Result<Buffer> buffer = Buffer::create(bytes);
//   if (!buffer) return buffer.error();
//
//   auto buffer = KVANT_TRY(Buffer::create(bytes));   // the same in one line
//
// Rejected: exceptions across rooms (a decode step must not unwind through noexcept commits), and
// std::error_code (no room for expected and actual values).
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include "kvant/base/check.h"
#include "kvant/base/error.h"

namespace kvant {

template <class T, class E = Error>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = E;

  template <class U = T>
    requires(std::is_constructible_v<T, U &&> && !std::is_same_v<std::remove_cvref_t<U>, Result> &&
             !std::is_convertible_v<U &&, E>)
  explicit(!std::is_convertible_v<U&&, T>) Result(U&& value)  // NOLINT: a value is a Result
      : storage_(std::in_place_index<0>, std::forward<U>(value)) {}

  template <class F>
    requires(std::is_convertible_v<F &&, E> && !std::is_same_v<std::remove_cvref_t<F>, Result>)
  Result(F&& error)  // NOLINT: an error is a Result
      : storage_(std::in_place_index<1>, std::forward<F>(error)) {}

  bool has_value() const noexcept { return storage_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  // The value and the error may be asked for only where they are: KVANT_CHECK.
  T& value() & { return checked_value(); }
  const T& value() const& {
    KVANT_CHECK(has_value());
    return *std::get_if<0>(&storage_);
  }
  T&& value() && { return std::move(checked_value()); }
  T& operator*() & { return checked_value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(checked_value()); }
  T* operator->() { return &checked_value(); }
  const T* operator->() const { return &value(); }

  const E& error() const& {
    KVANT_CHECK(storage_.index() == 1);
    return *std::get_if<1>(&storage_);
  }
  E&& error() && {
    KVANT_CHECK(storage_.index() == 1);
    return std::move(*std::get_if<1>(&storage_));
  }

  template <class U>
  T value_or(U&& fallback) const& {
    return has_value() ? value() : static_cast<T>(std::forward<U>(fallback));
  }

 private:
  T& checked_value() {
    KVANT_CHECK(has_value());
    return *std::get_if<0>(&storage_);
  }

  std::variant<T, E> storage_;
};

template <class E>
class [[nodiscard]] Result<void, E> {
 public:
  using value_type = void;
  using error_type = E;

  Result() = default;
  template <class F>
    requires(std::is_convertible_v<F &&, E> && !std::is_same_v<std::remove_cvref_t<F>, Result>)
  Result(F&& error)  // NOLINT: an error is a Result
      : storage_(std::in_place_index<1>, std::forward<F>(error)) {}

  bool has_value() const noexcept { return storage_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const { KVANT_CHECK(has_value()); }

  const E& error() const& {
    KVANT_CHECK(storage_.index() == 1);
    return *std::get_if<1>(&storage_);
  }
  E&& error() && {
    KVANT_CHECK(storage_.index() == 1);
    return std::move(*std::get_if<1>(&storage_));
  }

 private:
  std::variant<std::monostate, E> storage_;
};

using Status = Result<void, Error>;
using NamedStatus = Result<void, NamedError>;
template <class T>
using NamedResult = Result<T, NamedError>;

inline Status ok() { return {}; }

}  // namespace kvant

// Evaluates a Result: its value, or returns its error from the enclosing function. Not to be nested
// in its own argument. (A statement expression: g++, clang and nvcc have it.)
#define KVANT_TRY(...)                                                 \
  __extension__({                                                      \
    auto kvant_try_result = (__VA_ARGS__);                             \
    if (!kvant_try_result) return std::move(kvant_try_result).error(); \
    std::move(kvant_try_result).value();                               \
  })
