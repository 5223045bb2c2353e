// A value of JSON, for --json output. (The library that writes it stays inside json.cc.)
//
//   Json::Object out = {{"text", text}, {"tokens", json_of(ids)}};
//   streams.print(to_text(out));
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kvant/base/units.h"

namespace kvant::app {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // members keep their order

  Json() : value_(nullptr) {}
  template <std::integral Number>
  Json(Number number)  // NOLINT: a number is a Json, and a bool is not a number
      : value_(
            std::in_place_type<std::conditional_t<std::same_as<Number, bool>, bool, std::int64_t>>,
            number) {}
  Json(double number) : value_(number) {}                     // NOLINT
  Json(std::string text) : value_(std::move(text)) {}         // NOLINT
  Json(std::string_view text) : value_(std::string(text)) {}  // NOLINT
  Json(const char* text) : value_(std::string(text)) {}       // NOLINT
  Json(Array items) : value_(std::move(items)) {}             // NOLINT
  Json(Object members) : value_(std::move(members)) {}        // NOLINT
  template <class Tag>
  Json(Quantity<Tag> quantity) : value_(quantity.value()) {}  // NOLINT

  const auto& value() const { return value_; }

 private:
  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Array, Object> value_;
};

// An array of the range's items.
template <class Range>
Json::Array json_of(const Range& range) {
  Json::Array out;
  for (const auto& item : range) out.emplace_back(item);
  return out;
}

// Indented, with a newline at the end. Bytes that are not UTF-8 become U+FFFD, numbers that are not
// finite become null.
std::string to_text(const Json& json);

}  // namespace kvant::app
