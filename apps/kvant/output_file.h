// A file that the program writes from front to back.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kvant/base/result.h"

namespace kvant::app {

class OutputFile {
 public:
  // A file that is not there yet; or one that loses what it held.
  // Errors: kFileOpenFailed with the path.
  static NamedResult<OutputFile> create(const std::string& path);
  static NamedResult<OutputFile> replace(const std::string& path);

  // Errors: kFileWriteFailed with the path; what was written stays.
  NamedStatus write(std::span<const std::byte> bytes);
  NamedStatus write(std::string_view text);
  // Whoever does not ask cannot know whether all was written.
  NamedStatus close();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  OutputFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  static NamedResult<OutputFile> open(const std::string& path, const char* mode);
  NamedError failed() const;

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace kvant::app
