#include "kvant/model/model_file.h"

#include <cerrno>
#include <utility>

#include "kvant/base/file.h"
#include "kvant/model/json.h"

namespace kvant::model {

NamedResult<std::optional<std::string>> read_optional_file(const std::string& path,
                                                           Bytes max_bytes) {
  auto text = read_text_file(path, max_bytes);
  if (text) return std::optional<std::string>(*std::move(text));
  const Error error = text.error().error();
  if (error.code == ErrorCode::kFileOpenFailed && error.cause == ENOENT) {
    return std::optional<std::string>();
  }
  return NamedError(error, short_path(path));
}

NamedResult<std::string> read_needed_file(const std::string& path, Bytes max_bytes) {
  auto text = KVANT_TRY(read_optional_file(path, max_bytes));
  if (!text) return NamedError({.code = ErrorCode::kMissingFile}, short_path(path));
  return *std::move(text);
}

}  // namespace kvant::model
