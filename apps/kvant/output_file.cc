#include "apps/kvant/output_file.h"

#include <cerrno>

namespace kvant::app {

NamedResult<OutputFile> OutputFile::open(const std::string& path, const char* mode) {
  std::FILE* file = std::fopen(path.c_str(), mode);
  if (file == nullptr) {
    return NamedError(Error{.code = ErrorCode::kFileOpenFailed, .cause = errno}, path);
  }
  return OutputFile(path, file);
}

NamedResult<OutputFile> OutputFile::create(const std::string& path) { return open(path, "wbx"); }

NamedResult<OutputFile> OutputFile::replace(const std::string& path) { return open(path, "wb"); }

NamedError OutputFile::failed() const {
  return {Error{.code = ErrorCode::kFileWriteFailed, .cause = errno}, path_};
}

NamedStatus OutputFile::write(std::span<const std::byte> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size()) return {};
  return failed();
}

NamedStatus OutputFile::write(std::string_view text) {
  return write(std::as_bytes(std::span(text.data(), text.size())));
}

NamedStatus OutputFile::close() {
  if (std::fclose(file_.release()) == 0) return {};
  return failed();
}

}  // namespace kvant::app
