#include "apps/kvant/temporary_directory.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>

namespace kvant::app {

NamedResult<TemporaryDirectory> TemporaryDirectory::create(const std::string& parent) {
  std::string path = parent + "/kvant-bench-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    return NamedError(Error{.code = ErrorCode::kFileWriteFailed, .cause = errno}, parent);
  }
  return TemporaryDirectory(std::move(path));
}

void TemporaryDirectory::remove() noexcept {
  std::error_code ignored;  // what cannot be removed stays behind, as after a crash
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  path_.clear();
}

}  // namespace kvant::app
