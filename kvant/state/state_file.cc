// Reading and checking. What loads a file into a sequence is in state_file_load.cc.
#include "kvant/state/state_file.h"

#include <cstring>
#include <new>
#include <type_traits>

#include "kvant/state/state_file_check.h"
#include "kvant/state/state_file_header.h"

namespace kvant::state {
namespace {

std::span<const std::byte> bytes_of(std::span<const std::byte> file, const FileSection& section) {
  return file.subspan(section.offset.size(), section.bytes.size());
}

// Checksums of sections, and zeros between them.
Status check_bytes(std::span<const std::byte> file, const StateFileHeader& header) {
  for (const FileSection& section : header.sections) {
    if (xxh3_128(bytes_of(file, section)) != section.checksum) {
      return Error{.code = ErrorCode::kChecksumMismatch, .actual = section.offset.size()};
    }
    const Bytes end = section.offset + section.bytes;
    if (!all_zero(file.subspan(end.size(), (aligned(end) - end).size()))) {
      return Error{.code = ErrorCode::kBadFormat};
    }
  }
  return ok();
}

}  // namespace

std::string_view name_of(StateForm form) {
  return form == StateForm::kCompact ? "compact" : "full";
}

std::string_view name_of(SectionKind kind) {
  switch (kind) {
    case SectionKind::kPage:
      return "page";
    case SectionKind::kBlock:
      return "block";
    case SectionKind::kTokens:
      return "tokens";
    case SectionKind::kLogits:
      return "logits";
  }
  return "unknown";
}

bool StateFile::is_state_file(std::span<const std::byte> bytes) {
  return begins_like_a_state_file(bytes);
}

Result<StateFile> StateFile::open(std::span<const std::byte> bytes) {
  StateFileFront front = KVANT_TRY(decode_front(bytes));
  Geometry geometry = KVANT_TRY(make_geometry(front.header.layout));
  KVANT_TRY(check_header(front.header, geometry));
  KVANT_TRY(check_offsets(front.header, front.end, Bytes(static_cast<std::int64_t>(bytes.size()))));
  KVANT_TRY(check_bytes(bytes, front.header));
  return StateFile(bytes, std::move(front.header), std::move(geometry));
}

Bytes StateFile::payload_bytes() const { return payload_bytes_of(header_); }

const FileSection* StateFile::find(SectionKind kind) const {
  for (const FileSection& section : header_.sections) {
    if (section.kind == kind) return &section;
  }
  return nullptr;
}

template <class Number>
Result<std::vector<Number>> StateFile::numbers_of(SectionKind kind) const {
  static_assert(std::is_arithmetic_v<Number>);
  try {
    std::vector<Number> numbers;
    const FileSection* section = find(kind);
    if (section == nullptr) return numbers;
    numbers.resize(section->bytes.size() / sizeof(Number));
    std::memcpy(numbers.data(), bytes_.data() + section->offset.size(), section->bytes.size());
    return numbers;
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

Result<std::vector<TokenId>> StateFile::tokens() const {
  return numbers_of<TokenId>(SectionKind::kTokens);
}

Result<std::vector<float>> StateFile::logits() const {
  return numbers_of<float>(SectionKind::kLogits);
}

}  // namespace kvant::state
