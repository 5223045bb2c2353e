#include "kvant/base/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace kvant {
namespace {

NamedError file_error(ErrorCode code, const std::string& path, int cause) {
  return {Error{.code = code, .cause = cause}, path};
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Makes a rename last. 0 or errno.
int sync_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (fd < 0) return errno;
  const int cause = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return cause;
}

}  // namespace

NamedResult<NewFile> NewFile::create(const std::string& path, Readers readers) {
  // The system would name another file than the one given.
  if (path.find('\0') != std::string::npos) {
    return file_error(ErrorCode::kFileOpenFailed, path, EINVAL);
  }
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return file_error(ErrorCode::kNotAFile, path, 0);
  }
  const ::mode_t mode = readers == Readers::kOwnerOnly ? 0600 : 0666;
  // Names left by others, or by a crash, are passed over.
  constexpr int kTries = 1000;
  int cause = EEXIST;
  for (int i = 0; i < kTries && cause == EEXIST; ++i) {
    std::string temporary = fmt::format("{}.{}.new", path, i);
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0) return NewFile(path, std::move(temporary), fd);
    cause = errno;
  }
  return file_error(ErrorCode::kFileOpenFailed, path, cause);
}

NewFile::~NewFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

NamedError NewFile::write_failed() const {
  return file_error(ErrorCode::kFileWriteFailed, path_, errno);
}

Status NewFile::write(Bytes offset, std::span<const std::byte> bytes) {
  auto at = static_cast<::off_t>(offset.value());
  while (!bytes.empty()) {
    const ::ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Error{.code = ErrorCode::kFileWriteFailed, .cause = n < 0 ? errno : ENOSPC};
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    at += n;
  }
  return ok();
}

NamedStatus NewFile::commit() {
  if (::fsync(fd_) != 0) return write_failed();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return write_failed();
  const int closed = ::close(std::exchange(fd_, -1));
  if (closed != 0) return write_failed();
  const int cause = sync_folder(folder_of(path_));
  if (cause != 0) return file_error(ErrorCode::kFileWriteFailed, path_, cause);
  return {};
}

}  // namespace kvant
