// A JSON text and what to call it in errors.
#pragma once

#include <string_view>

namespace kvant::model {

struct JsonText {
  std::string_view name;  // a path, usually
  std::string_view text;
};

}  // namespace kvant::model
