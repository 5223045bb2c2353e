// A file that appears whole or not at all.
//
//   create           writes                    commit
//   NAME.k.new  -->  at any offsets  -->  fsync, rename to NAME, fsync of the folder
//
// Whoever opens NAME meanwhile, and whoever looks after a crash or a full disk, finds what was
// there before. The temporary name is removed when the object goes without commit; a crash leaves
// it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "kvant/base/result.h"
#include "kvant/base/units.h"

namespace kvant {

class NewFile {
 public:
  // Who else may read the file.
  enum class Readers { kUmask, kOwnerOnly };

  // Opens a temporary file beside `path`.
  // Errors, each with the path: kNotAFile when something is there that is no regular file (a
  // device, a folder); kFileOpenFailed{cause}.
  static NamedResult<NewFile> create(const std::string& path, Readers readers);

  NewFile(NewFile&& other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::move(other.temporary_)),
        fd_(std::exchange(other.fd_, -1)) {}
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  // Errors: kFileWriteFailed{cause}.
  Status write(Bytes offset, std::span<const std::byte> bytes);

  // Makes the file appear under its name, in place of what was there; nothing may be written after.
  // Errors, with the path: kFileWriteFailed{cause}; what was there before still is, unless the last
  // step (fsync of the folder) failed: then the new file is there but may not survive a crash.
  NamedStatus commit();

  const std::string& path() const { return path_; }

 private:
  NewFile(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}
  NamedError write_failed() const;

  std::string path_;
  std::string temporary_;
  int fd_ = -1;  // -1: committed, or moved from
};

}  // namespace kvant
