// A directory for files of a benchmark that goes away with the object.
#pragma once

#include <string>
#include <utility>

#include "kvant/base/result.h"

namespace kvant::app {

class TemporaryDirectory {
 public:
  // A new directory of an unused name below `parent`.
  // Errors: kFileWriteFailed with the path.
  static NamedResult<TemporaryDirectory> create(const std::string& parent);

  TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory() { remove(); }

  const std::string& path() const { return path_; }
  // Files that are mapped stay readable.
  void remove() noexcept;

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;  // empty: removed
};

}  // namespace kvant::app
