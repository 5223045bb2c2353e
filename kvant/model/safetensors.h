// Reader of safetensors files.
//
//   +----------------+-----------------------------+--------------------------------------+
//   | u64 n, little  | n bytes of JSON             | data: tensors back to back           |
//   | endian         | {"name": {...}, ...} blanks |                                      |
//   +----------------+-----------------------------+--------------------------------------+
//   0                8                             8 + n               end of file
//
// Each JSON member is {"dtype": "BF16", "shape": [..], "data_offsets": [begin, end]}, offsets
// counted from the start of the data; the member "__metadata__" maps strings to strings.
//
// The file is not trusted. Every number is checked before it is used, nothing is allocated from a
// number in the file, and a file is accepted whole or refused whole:
//   1. the header lies in the file, is at most 100 MB, starts with '{' and ends in blanks at most;
//   2. names are unique, element types known, shape x type gives exactly the bytes stored;
//   3. the tensors cover the data from its first to its last byte without gap or overlap. A tensor
//      without elements is legal and covers nothing.
//
// Rejected: reading element types we cannot name (8-bit floats) as raw bytes; a wrong guess of
// their width would pass the size check of a crafted file.
//
// Source: the format's description in the README of github.com/huggingface/safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kvant/base/file.h"
#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/tensor/dtype.h"

namespace kvant::model {

enum class FileAccess : std::uint8_t {
  kMap,   // pages come from the file when touched; see base/file.h about files that shrink
  kRead,  // copied into memory: for files that other users may change meanwhile
};

struct TensorInfo {
  std::string name;
  tensor::Dtype dtype = tensor::Dtype::kF32;
  std::vector<std::int64_t> shape;  // slowest dimension first; empty: one number
  std::span<const std::byte> data;  // [shape] of dtype, rows contiguous, at any alignment

  // Was checked to fit when the file was read.
  Elements n_elements() const;
};

using StringMap = std::map<std::string, std::string, std::less<>>;

// An open file and its table of tensors. Move-only; the tensors' data stays valid when moved.
// Threads: any number may read.
class SafetensorsFile {
 public:
  // Errors, each with the path and the tensor as detail: those of MappedFile::open and read_file;
  // kFileTruncated, kHeaderTooLong, kBadFormat, kBadJson, kDuplicateName, kMissingKey, kBadValue,
  // kUnknownDtype, kByteSizeMismatch, kOffsetOutOfRange, kOverlap, kLimitExceeded, kOutOfMemory.
  // Cost: proportional to the header; the data is not touched when mapped.
  static NamedResult<SafetensorsFile> open(const std::string& path,
                                           FileAccess access = FileAccess::kMap);

  // The same over bytes that the caller keeps; `name` stands for the path in errors.
  static NamedResult<SafetensorsFile> parse(std::span<const std::byte> bytes,
                                            std::string_view name);

  const std::string& path() const { return path_; }
  // Null when there is no such tensor. Cost: O(log n_tensors).
  const TensorInfo* find(std::string_view name) const;
  // In ascending order of names.
  std::span<const TensorInfo> tensors() const { return tensors_; }
  const StringMap& metadata() const { return metadata_; }

 private:
  SafetensorsFile() = default;

  std::string path_;
  std::variant<std::monostate, MappedFile, std::vector<std::byte>> storage_;
  std::vector<TensorInfo> tensors_;
  StringMap metadata_;
};

}  // namespace kvant::model
