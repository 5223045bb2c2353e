#include "apps/kvant/json.h"

#include <nlohmann/json.hpp>
#include <type_traits>

namespace kvant::app {
namespace {

using Document = nlohmann::ordered_json;

Document convert(const Json& json) {
  return std::visit(
      [](const auto& value) -> Document {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, Json::Array>) {
          Document out = Document::array();
          for (const Json& item : value) out.push_back(convert(item));
          return out;
        } else if constexpr (std::is_same_v<Value, Json::Object>) {
          Document out = Document::object();
          for (const auto& [name, member] : value) out[name] = convert(member);
          return out;
        } else {
          return Document(value);
        }
      },
      json.value());
}

}  // namespace

std::string to_text(const Json& json) {
  return convert(json).dump(2, ' ', false, Document::error_handler_t::replace) + "\n";
}

}  // namespace kvant::app
