#include "kvant/model/json.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvant::model {
namespace {

using simdjson::dom::element_type;

NamedError wrong_kind(const std::string& where, std::string_view allowed, const JsonValue& value) {
  return {Error{.code = ErrorCode::kBadValue},
          fmt::format("{} is {}, allowed is {}", where, describe_json(value), allowed)};
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShownBytes = 60;
  std::string shown = escape_for_display(text.substr(0, kShownBytes + 1), kShownBytes);
  if (text.size() > kShownBytes) shown += "...";
  return fmt::format("'{}'", shown);
}

std::string short_path(std::string_view path) {
  constexpr std::size_t kShownBytes = 90;
  if (path.size() <= kShownBytes) return std::string(path);
  const std::string_view tail = path.substr(path.size() - kShownBytes);
  const std::size_t slash = tail.find('/');
  return fmt::format("...{}", slash == std::string_view::npos ? tail : tail.substr(slash));
}

std::string describe_json(const JsonValue& value) {
  switch (value.type()) {
    case element_type::INT64:
      return fmt::format("{}", value.get_int64().value_unsafe());
    case element_type::UINT64:
      return fmt::format("{}", value.get_uint64().value_unsafe());
    case element_type::DOUBLE:
      return fmt::format("the floating-point number {}", value.get_double().value_unsafe());
    case element_type::STRING:
      return in_quotes(value.get_string().value_unsafe());
    case element_type::BOOL:
      return value.get_bool().value_unsafe() ? "true" : "false";
    case element_type::NULL_VALUE:
      return "null";
    case element_type::ARRAY:
      return fmt::format("an array of {}", value.get_array().value_unsafe().size());
    case element_type::OBJECT:
      return "an object";
  }
  return "unreadable";
}

NamedResult<std::int64_t> checked_integer(const JsonValue& value, const std::string& where,
                                          IntegerRange range) {
  std::int64_t number = 0;
  if (value.type() == element_type::UINT64) {
    number = INT64_MAX;  // the parser uses this type beyond int64 only
  } else if (value.get_int64().get(number) != simdjson::SUCCESS) {
    return wrong_kind(where, fmt::format("an integer from {} to {}", range.min, range.max), value);
  }
  if (number < range.min || number > range.max || value.type() == element_type::UINT64) {
    return wrong_kind(where, fmt::format("{} to {}", range.min, range.max), value);
  }
  return number;
}

NamedResult<JsonObject> JsonObject::create(const JsonValue& value, std::string where) {
  simdjson::dom::object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) {
    return wrong_kind(where, "an object", value);
  }
  JsonObject out;
  out.where_ = std::move(where);
  for (const auto member : object) out.members_.push_back({member.key, member.value});
  std::sort(out.members_.begin(), out.members_.end(),
            [](const Member& a, const Member& b) { return a.key < b.key; });
  const auto twice =
      std::adjacent_find(out.members_.begin(), out.members_.end(),
                         [](const Member& a, const Member& b) { return a.key == b.key; });
  if (twice != out.members_.end()) {
    return NamedError({.code = ErrorCode::kDuplicateName},
                      fmt::format("{}: {}", out.where_, in_quotes(twice->key)));
  }
  return out;
}

const JsonObject::Member* JsonObject::find_member(std::string_view key) const {
  const auto at =
      std::lower_bound(members_.begin(), members_.end(), key,
                       [](const Member& member, std::string_view k) { return member.key < k; });
  return at != members_.end() && at->key == key ? &*at : nullptr;
}

const JsonValue* JsonObject::find(std::string_view key) const {
  const Member* member = find_member(key);
  return member == nullptr || member->value.is_null() ? nullptr : &member->value;
}

bool JsonObject::has(std::string_view key) const { return find_member(key) != nullptr; }

NamedError JsonObject::bad_value(std::string_view key, std::string_view allowed) const {
  const JsonValue* value = find(key);
  const std::string where = fmt::format("{}: {}", where_, key);
  if (value == nullptr) return missing_key(key);
  return wrong_kind(where, allowed, *value);
}

NamedError JsonObject::missing_key(std::string_view key) const {
  return {Error{.code = ErrorCode::kMissingKey}, fmt::format("{}: {}", where_, key)};
}

NamedResult<std::optional<std::int64_t>> JsonObject::find_integer(std::string_view key,
                                                                  IntegerRange range) const {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::optional<std::int64_t>();
  return std::optional<std::int64_t>(
      KVANT_TRY(checked_integer(*value, fmt::format("{}: {}", where_, key), range)));
}

NamedResult<std::int64_t> JsonObject::integer(std::string_view key, IntegerRange range) const {
  const auto number = KVANT_TRY(find_integer(key, range));
  if (!number) return missing_key(key);
  return *number;
}

NamedResult<std::optional<double>> JsonObject::find_number(std::string_view key) const {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::optional<double>();
  double number = 0;
  if (value->get_double().get(number) != simdjson::SUCCESS) return bad_value(key, "a number");
  return std::optional<double>(number);
}

NamedResult<std::optional<bool>> JsonObject::find_flag(std::string_view key) const {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  bool flag = false;
  if (value->get_bool().get(flag) != simdjson::SUCCESS) return bad_value(key, "true or false");
  return std::optional<bool>(flag);
}

NamedResult<std::optional<std::string_view>> JsonObject::find_text(std::string_view key) const {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::optional<std::string_view>();
  std::string_view text;
  if (value->get_string().get(text) != simdjson::SUCCESS) return bad_value(key, "a string");
  return std::optional<std::string_view>(text);
}

NamedResult<std::string_view> JsonObject::text(std::string_view key) const {
  const auto found = KVANT_TRY(find_text(key));
  if (!found) return missing_key(key);
  return *found;
}

NamedResult<std::optional<simdjson::dom::array>> JsonObject::find_array(
    std::string_view key) const {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::optional<simdjson::dom::array>();
  simdjson::dom::array array;
  if (value->get_array().get(array) != simdjson::SUCCESS) return bad_value(key, "an array");
  return std::optional<simdjson::dom::array>(array);
}

NamedResult<simdjson::dom::array> JsonObject::array(std::string_view key) const {
  const auto found = KVANT_TRY(find_array(key));
  if (!found) return missing_key(key);
  return *found;
}

NamedResult<std::optional<JsonObject>> JsonObject::find_object(std::string_view key) const {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::optional<JsonObject>();
  return std::optional<JsonObject>(
      KVANT_TRY(JsonObject::create(*value, fmt::format("{}: {}", where_, key))));
}

NamedResult<JsonObject> JsonObject::object(std::string_view key) const {
  auto found = KVANT_TRY(find_object(key));
  if (!found) return missing_key(key);
  return std::move(*found);
}

NamedResult<JsonDocument> JsonDocument::parse(JsonText source, JsonLimits limits) {
  JsonDocument out;
  out.name_ = short_path(source.name);
  out.parser_ = std::make_unique<simdjson::dom::parser>();
  if (source.text.size() > limits.bytes_max) {
    return NamedError({.code = ErrorCode::kLimitExceeded,
                       .actual = source.text.size(),
                       .expected = limits.bytes_max},
                      out.name_ + ": bytes of JSON");
  }
  // Capacity is set first, since parse would otherwise choose its own, deeper limit of nesting.
  constexpr std::size_t kLeastCapacity = 64;
  simdjson::error_code code =
      out.parser_->allocate(std::max(source.text.size(), kLeastCapacity), limits.depth_max);
  if (code == simdjson::SUCCESS) {
    code = out.parser_->parse(source.text.data(), source.text.size(), true).get(out.root_);
  }
  if (code == simdjson::MEMALLOC) {
    return NamedError({.code = ErrorCode::kOutOfMemory, .actual = source.text.size()}, out.name_);
  }
  if (code == simdjson::DEPTH_ERROR) {
    return NamedError({.code = ErrorCode::kBadJson},
                      fmt::format("{}: nested deeper than {}", out.name_, limits.depth_max));
  }
  if (code != simdjson::SUCCESS) {
    return NamedError({.code = ErrorCode::kBadJson},
                      fmt::format("{}: {}", out.name_, simdjson::error_message(code)));
  }
  return out;
}

}  // namespace kvant::model
