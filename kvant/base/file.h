// The seam to files: read a whole one, or map one for reading.
//
// A mapped file whose tail is cut off by somebody else while mapped raises SIGBUS on the next
// touch; a library cannot turn that into a value. The program installs a handler (one line, exit
// code 1); an embedder who does not trust the file's other users reads it with read_file instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"

namespace kvant {

// Reads the whole of a regular file of at most `max_bytes`. How much there is, is what the system
// says when the file is opened: what is appended meanwhile is not read.
// Errors: kFileOpenFailed{cause}, kNotAFile, kFileReadFailed{cause}, kFileTruncated{actual: bytes
// there, expected: size} when it was cut meanwhile, kLimitExceeded{actual: size, expected: max},
// kOutOfMemory{actual: size}; each with the path as detail.
// Threads: any. Cost: one copy of the file.
NamedResult<std::vector<std::byte>> read_file(const std::string& path, Bytes max_bytes);
NamedResult<std::string> read_text_file(const std::string& path, Bytes max_bytes);

// A regular file mapped read-only. Move-only; unmaps when destroyed. Safe to read from any thread.
class MappedFile {
 public:
  // An empty file maps to an empty span.
  // Errors: kFileOpenFailed{cause}, kNotAFile, kFileMapFailed{cause}; each with the path as detail.
  static NamedResult<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, const std::byte* data, std::size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  void unmap() noexcept;

  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kvant
