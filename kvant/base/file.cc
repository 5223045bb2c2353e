#include "kvant/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <utility>

namespace kvant {
namespace {

NamedError file_error(ErrorCode code, const std::string& path, int cause = 0) {
  return {Error{.code = code, .cause = cause}, path};
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

struct OpenedFile {
  Descriptor descriptor;
  std::size_t size;
};

NamedResult<OpenedFile> open_regular(const std::string& path) {
  // The system would open the part before the NUL: another file than the one named.
  if (path.find('\0') != std::string::npos) {
    return file_error(ErrorCode::kFileOpenFailed, path, EINVAL);
  }
  // O_NONBLOCK: opening a named pipe must not hang; it is refused below.
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return file_error(ErrorCode::kFileOpenFailed, path, errno);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return file_error(ErrorCode::kFileOpenFailed, path, errno);
  if (!S_ISREG(info.st_mode)) return file_error(ErrorCode::kNotAFile, path);
  return OpenedFile{.descriptor = std::move(fd), .size = static_cast<std::size_t>(info.st_size)};
}

template <class Container>
NamedResult<Container> read_into(const std::string& path, Bytes max_bytes) {
  OpenedFile file = KVANT_TRY(open_regular(path));
  const std::size_t limit = std::max(max_bytes, Bytes(0)).size();
  if (file.size > limit) {
    return NamedError({.code = ErrorCode::kLimitExceeded, .actual = file.size, .expected = limit},
                      path);
  }
  Container out;
  NamedError no_memory({.code = ErrorCode::kOutOfMemory, .actual = file.size}, path);
  try {
    out.resize(file.size);
  } catch (const std::bad_alloc&) {
    return no_memory;
  } catch (const std::length_error&) {
    return no_memory;
  }
  std::size_t done = 0;
  while (done < file.size) {
    const ssize_t n = ::read(file.descriptor.get(), out.data() + done, file.size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_error(ErrorCode::kFileReadFailed, path, errno);
    if (n == 0) {
      return NamedError({.code = ErrorCode::kFileTruncated, .actual = done, .expected = file.size},
                        path);
    }
    done += static_cast<std::size_t>(n);
  }
  return out;
}

}  // namespace

NamedResult<std::vector<std::byte>> read_file(const std::string& path, Bytes max_bytes) {
  return read_into<std::vector<std::byte>>(path, max_bytes);
}

NamedResult<std::string> read_text_file(const std::string& path, Bytes max_bytes) {
  return read_into<std::string>(path, max_bytes);
}

NamedResult<MappedFile> MappedFile::open(const std::string& path) {
  const OpenedFile file = KVANT_TRY(open_regular(path));
  if (file.size == 0) return MappedFile(path, nullptr, 0);
  void* data = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
  if (data == MAP_FAILED) return file_error(ErrorCode::kFileMapFailed, path, errno);
  // A hint only: fewer TLB misses where the file system has huge pages in its cache.
  ::madvise(data, file.size, MADV_HUGEPAGE);
  return MappedFile(path, static_cast<const std::byte*>(data), file.size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() noexcept {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace kvant
