// Reading JSON that nobody vouches for. Internal to the room: the only header that shows simdjson.
//
// Every reader here wants the same things of a file it does not trust, so they are done once: a
// bound on bytes and depth, no key twice in an object that is looked into, numbers inside a range,
// and an error that names file, key, what was received and what is allowed. A null counts as
// absent, since Hugging Face files write it for "default".
//
// Only the error-code interface of simdjson is used; nothing here throws but std::bad_alloc, which
// without_bad_alloc turns into a value at the room's border.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/model/json_text.h"

namespace kvant::model {

using JsonValue = simdjson::dom::element;

// What a value is, for an error: its text when short, else its kind.
std::string describe_json(const JsonValue& value);

// `text` in single quotes, control characters escaped, cut to 60 bytes.
std::string in_quotes(std::string_view text);

// The last part of a long path, so that an error has room for what is wrong.
std::string short_path(std::string_view path);

struct IntegerRange {
  std::int64_t min = 0;
  std::int64_t max = 0;
};

// The members of one object, by name. A view into its document.
class JsonObject {
 public:
  struct Member {
    std::string_view key;
    JsonValue value;
  };

  // `where` names the object in errors ("config.json: rope_parameters").
  // Errors: kBadValue for another kind of value, kDuplicateName for a key twice.
  static NamedResult<JsonObject> create(const JsonValue& value, std::string where);

  const std::string& where() const { return where_; }
  const std::vector<Member>& members() const { return members_; }  // ascending by key
  const JsonValue* find(std::string_view key) const;               // null: absent or null
  bool has(std::string_view key) const;                            // also with the value null

  // find_*: nothing when absent. The others: kMissingKey when absent.
  // Errors: kBadValue for another kind of value; kLimitExceeded or kBadValue out of the range.
  NamedResult<std::optional<std::int64_t>> find_integer(std::string_view key,
                                                        IntegerRange range) const;
  NamedResult<std::int64_t> integer(std::string_view key, IntegerRange range) const;
  NamedResult<std::optional<double>> find_number(std::string_view key) const;
  NamedResult<std::optional<bool>> find_flag(std::string_view key) const;
  NamedResult<std::optional<std::string_view>> find_text(std::string_view key) const;
  NamedResult<std::string_view> text(std::string_view key) const;
  NamedResult<std::optional<simdjson::dom::array>> find_array(std::string_view key) const;
  NamedResult<simdjson::dom::array> array(std::string_view key) const;
  NamedResult<std::optional<JsonObject>> find_object(std::string_view key) const;
  NamedResult<JsonObject> object(std::string_view key) const;

  // "key is RECEIVED, allowed is ALLOWED" about a member that is there.
  NamedError bad_value(std::string_view key, std::string_view allowed) const;
  NamedError missing_key(std::string_view key) const;

 private:
  const Member* find_member(std::string_view key) const;

  std::string where_;
  std::vector<Member> members_;
};

// An integer that must be in a range; `where` names it.
NamedResult<std::int64_t> checked_integer(const JsonValue& value, const std::string& where,
                                          IntegerRange range);

struct JsonLimits {
  std::size_t bytes_max = std::size_t{16} << 20;
  std::size_t depth_max = 32;
};

// A parsed text; owns what its values refer to.
class JsonDocument {
 public:
  // Errors: kLimitExceeded, kBadJson, kOutOfMemory; with the name as detail.
  static NamedResult<JsonDocument> parse(JsonText source, JsonLimits limits);

  const JsonValue& root() const { return root_; }
  const std::string& name() const { return name_; }
  // Errors: as JsonObject::create.
  NamedResult<JsonObject> object() const { return JsonObject::create(root_, name_); }

 private:
  std::string name_;
  std::unique_ptr<simdjson::dom::parser> parser_;  // values point into it, so it must not move
  JsonValue root_;
};

// Calls `read`; a failed allocation in it becomes kOutOfMemory (bytes unknown: 0).
template <class Read>
auto without_bad_alloc(Read&& read) -> decltype(read()) {
  try {
    return std::forward<Read>(read)();
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

}  // namespace kvant::model
