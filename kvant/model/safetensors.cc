#include "kvant/model/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "kvant/base/checked.h"
#include "kvant/model/json.h"

namespace kvant::model {
namespace {

static_assert(std::endian::native == std::endian::little, "file numbers are used as they lie");

constexpr std::size_t kPrefixBytes = 8;
constexpr std::uint64_t kHeaderBytesMax = 100'000'000;  // the format's own limit
constexpr std::size_t kRankMax = 16;
// The table itself has depth 4; metadata values are strings.
constexpr JsonLimits kHeaderLimits{.bytes_max = kHeaderBytesMax, .depth_max = 8};

struct NamedDtype {
  std::string_view name;
  tensor::Dtype dtype;
};
constexpr std::array<NamedDtype, 13> kDtypes = {{
    {"F64", tensor::Dtype::kF64},
    {"F32", tensor::Dtype::kF32},
    {"F16", tensor::Dtype::kF16},
    {"BF16", tensor::Dtype::kBf16},
    {"I64", tensor::Dtype::kI64},
    {"I32", tensor::Dtype::kI32},
    {"I16", tensor::Dtype::kI16},
    {"I8", tensor::Dtype::kI8},
    {"U64", tensor::Dtype::kU64},
    {"U32", tensor::Dtype::kU32},
    {"U16", tensor::Dtype::kU16},
    {"U8", tensor::Dtype::kU8},
    {"BOOL", tensor::Dtype::kBool},
}};

constexpr IntegerRange kAnyCount{.min = 0, .max = std::numeric_limits<std::int64_t>::max()};

// The table of one file while it is read.
struct Table {
  std::vector<TensorInfo> tensors;
  StringMap metadata;
};

struct FileParts {
  std::string_view header;
  std::span<const std::byte> data;
};

NamedResult<FileParts> split_file(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kPrefixBytes) {
    return NamedError(
        {.code = ErrorCode::kFileTruncated, .actual = bytes.size(), .expected = kPrefixBytes},
        name);
  }
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kPrefixBytes);
  const std::uint64_t bytes_allowed =
      std::min<std::uint64_t>(bytes.size() - kPrefixBytes, kHeaderBytesMax);
  if (header_bytes > bytes_allowed) {
    return NamedError(
        {.code = ErrorCode::kHeaderTooLong, .actual = header_bytes, .expected = bytes_allowed},
        name);
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data() + kPrefixBytes);
  const std::string_view header(text, header_bytes);
  if (header.empty() || header.front() != '{') {
    return NamedError({.code = ErrorCode::kBadFormat},
                      fmt::format("{}: a safetensors header starts with '{{', this one of {} bytes"
                                  " does not",
                                  name, header_bytes));
  }
  return FileParts{.header = header, .data = bytes.subspan(kPrefixBytes + header_bytes)};
}

NamedStatus read_metadata(const JsonValue& value, const std::string& name, StringMap& out) {
  const JsonObject object = KVANT_TRY(JsonObject::create(value, name + ": __metadata__"));
  for (const JsonObject::Member& member : object.members()) {
    std::string_view text;
    if (member.value.get_string().get(text) != simdjson::SUCCESS) {
      return NamedError({.code = ErrorCode::kBadValue},
                        fmt::format("{}: {} is {}, allowed is a string", object.where(),
                                    in_quotes(member.key), describe_json(member.value)));
    }
    out.emplace(member.key, text);
  }
  return {};
}

NamedResult<tensor::Dtype> read_dtype(const JsonObject& entry) {
  const std::string_view name = KVANT_TRY(entry.text("dtype"));
  const auto found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                  [&](const NamedDtype& known) { return known.name == name; });
  if (found != kDtypes.end()) return found->dtype;
  return NamedError(
      {.code = ErrorCode::kUnknownDtype},
      fmt::format("{}: dtype is {}, known are F64 F32 F16 BF16, I and U of 8 to 64, BOOL",
                  entry.where(), in_quotes(name)));
}

NamedResult<std::vector<std::int64_t>> read_shape(const JsonObject& entry) {
  const simdjson::dom::array array = KVANT_TRY(entry.array("shape"));
  std::vector<std::int64_t> shape;
  for (const JsonValue dimension : array) {
    if (shape.size() == kRankMax) {
      return NamedError(
          {.code = ErrorCode::kLimitExceeded, .actual = array.size(), .expected = kRankMax},
          entry.where() + ": number of dimensions");
    }
    shape.push_back(KVANT_TRY(checked_integer(dimension, entry.where() + ": shape", kAnyCount)));
  }
  return shape;
}

struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

NamedResult<ByteRange> read_offsets(const JsonObject& entry, std::uint64_t data_bytes) {
  const simdjson::dom::array array = KVANT_TRY(entry.array("data_offsets"));
  std::array<std::int64_t, 2> ends{};
  std::size_t n_ends = 0;
  for (const JsonValue offset : array) {
    if (n_ends == ends.size()) return entry.bad_value("data_offsets", "two numbers");
    ends[n_ends++] =
        KVANT_TRY(checked_integer(offset, entry.where() + ": data_offsets", kAnyCount));
  }
  if (n_ends != ends.size()) return entry.bad_value("data_offsets", "two numbers");
  if (ends[0] > ends[1]) {
    return NamedError({.code = ErrorCode::kBadValue},
                      fmt::format("{}: data_offsets end at {} before they begin at {}",
                                  entry.where(), ends[1], ends[0]));
  }
  const ByteRange range{static_cast<std::uint64_t>(ends[0]), static_cast<std::uint64_t>(ends[1])};
  if (range.end > data_bytes) {
    return NamedError(
        {.code = ErrorCode::kOffsetOutOfRange, .actual = range.end, .expected = data_bytes},
        entry.where());
  }
  return range;
}

// Bytes of a shape; UINT64_MAX when they do not fit 64 bits, which no stored size equals.
std::uint64_t bytes_of_shape(std::span<const std::int64_t> shape, tensor::Dtype dtype) {
  // A zero anywhere makes the product 0, however large the other dimensions are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t bytes = tensor::bytes_of(dtype);
  for (const std::int64_t dimension : shape) {
    const auto product = checked_mul(bytes, dimension);
    if (!product) return std::numeric_limits<std::uint64_t>::max();
    bytes = *product;
  }
  return static_cast<std::uint64_t>(bytes);
}

NamedResult<TensorInfo> read_tensor(const JsonObject& entry, std::string_view name,
                                    std::span<const std::byte> data) {
  TensorInfo tensor;
  tensor.name = name;
  tensor.dtype = KVANT_TRY(read_dtype(entry));
  tensor.shape = KVANT_TRY(read_shape(entry));
  const ByteRange range = KVANT_TRY(read_offsets(entry, data.size()));
  const std::uint64_t bytes_needed = bytes_of_shape(tensor.shape, tensor.dtype);
  if (range.end - range.begin != bytes_needed) {
    return NamedError({.code = ErrorCode::kByteSizeMismatch,
                       .actual = range.end - range.begin,
                       .expected = bytes_needed},
                      entry.where());
  }
  tensor.data = data.subspan(range.begin, range.end - range.begin);
  return tensor;
}

// The tensors, in the order of their data, must follow each other from the first byte to the last.
NamedStatus check_cover(const std::vector<TensorInfo>& tensors, std::span<const std::byte> data,
                        const std::string& name) {
  std::vector<const TensorInfo*> by_offset;
  by_offset.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) by_offset.push_back(&tensor);
  std::sort(by_offset.begin(), by_offset.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::pair(a->data.data(), a->data.size()) < std::pair(b->data.data(), b->data.size());
  });
  std::uint64_t end = 0;
  for (const TensorInfo* tensor : by_offset) {
    if (tensor->data.empty()) continue;
    const auto begin = static_cast<std::uint64_t>(tensor->data.data() - data.data());
    if (begin != end) {
      return NamedError({.code = ErrorCode::kOverlap, .actual = begin, .expected = end},
                        fmt::format("{}: tensor {}", name, in_quotes(tensor->name)));
    }
    end = begin + tensor->data.size();
  }
  if (end == data.size()) return {};
  return NamedError({.code = ErrorCode::kOverlap, .actual = data.size(), .expected = end},
                    name + ": bytes after the last tensor");
}

NamedResult<Table> read_table(std::span<const std::byte> bytes, std::string_view path) {
  const std::string name = short_path(path);
  const FileParts parts = KVANT_TRY(split_file(bytes, name));
  const JsonDocument document =
      KVANT_TRY(JsonDocument::parse({.name = name, .text = parts.header}, kHeaderLimits));
  const JsonObject header = KVANT_TRY(document.object());
  Table table;
  table.tensors.reserve(header.members().size());
  for (const JsonObject::Member& member : header.members()) {
    if (member.key == "__metadata__") {
      KVANT_TRY(read_metadata(member.value, name, table.metadata));
      continue;
    }
    const JsonObject entry = KVANT_TRY(JsonObject::create(
        member.value, fmt::format("{}: tensor {}", name, in_quotes(member.key))));
    table.tensors.push_back(KVANT_TRY(read_tensor(entry, member.key, parts.data)));
  }
  KVANT_TRY(check_cover(table.tensors, parts.data, name));
  return table;
}

}  // namespace

Elements TensorInfo::n_elements() const {
  return Elements(static_cast<std::int64_t>(data.size()) / tensor::bytes_of(dtype));
}

NamedResult<SafetensorsFile> SafetensorsFile::open(const std::string& path, FileAccess access) {
  return without_bad_alloc([&]() -> NamedResult<SafetensorsFile> {
    SafetensorsFile file;
    std::span<const std::byte> bytes;
    if (access == FileAccess::kMap) {
      bytes = file.storage_.emplace<MappedFile>(KVANT_TRY(MappedFile::open(path))).bytes();
    } else {
      constexpr Bytes kAnySize(std::numeric_limits<std::int64_t>::max());
      bytes = file.storage_.emplace<std::vector<std::byte>>(KVANT_TRY(read_file(path, kAnySize)));
    }
    Table table = KVANT_TRY(read_table(bytes, path));
    file.path_ = path;
    file.tensors_ = std::move(table.tensors);
    file.metadata_ = std::move(table.metadata);
    return file;
  });
}

NamedResult<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes,
                                                    std::string_view name) {
  return without_bad_alloc([&]() -> NamedResult<SafetensorsFile> {
    Table table = KVANT_TRY(read_table(bytes, name));
    SafetensorsFile file;
    file.path_ = name;
    file.tensors_ = std::move(table.tensors);
    file.metadata_ = std::move(table.metadata);
    return file;
  });
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const TensorInfo& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

}  // namespace kvant::model
