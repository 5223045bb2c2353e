// State files: what a sequence remembers at one position, as bytes, and back.
//
//   0         64                                                       multiples of 64
//   +---------+------------------+---------+-----------+---------+-----------+-- ... --+
//   | prelude | FlatBuffers      | zeros   | section 0 | zeros   | section 1 |         |
//   |         | header           |         | (a page)  |         | (a page)  |         |
//   +---------+------------------+---------+-----------+---------+-----------+-- ... --+
//
// The header says what the file is: version, fingerprint, lineage, position, the layout it was made
// with, and where each section lies with its checksum. Sections are raw numbers: the pages of each
// group in order, the block (rings and recurrent components), then, if given, token ids and logits.
// docs/formats/state.md goes through the bytes.
//
// Two forms. *Compact* holds live bytes only, so its sections are live_bytes(plan, position) long.
// *Full* holds whole pages and the block as they lie in memory without rollback history; dead bytes
// are written as initial values. In both, equal states give equal files whatever the route by which
// they came there, and no byte that nobody wrote leaves the process.
//
// A file says nothing of contexts: it loads into any sequence of an equal layout that has room for
// its position, whatever the context, rollback depth and pool. Nothing can be rolled back right
// after loading.
//
// The file is not trusted. Everything is checked before a sequence changes, nothing is allocated
// from a number in the file that the file's size does not cover, and a file is accepted whole or
// refused whole. Checksums find damage, not malice: who may write the file may write any state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kvant/base/hash.h"
#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/state/contents.h"
#include "kvant/state/fingerprint.h"
#include "kvant/state/geometry.h"
#include "kvant/state/layout.h"
#include "kvant/state/sequence.h"
#include "kvant/state/snapshot.h"

namespace kvant::state {

inline constexpr std::uint32_t kStateFileVersion = 0;

// Enumerators' numbers are part of files: never changed or reused.
enum class StateForm : std::uint8_t { kCompact = 0, kFull = 1 };
enum class SectionKind : std::uint8_t { kPage = 0, kBlock = 1, kTokens = 2, kLogits = 3 };

std::string_view name_of(StateForm form);
std::string_view name_of(SectionKind kind);

struct FileSection {
  SectionKind kind = SectionKind::kPage;
  std::uint32_t group = 0;  // of a page
  std::uint64_t page = 0;   // of its group, in order
  Bytes offset{0};
  Bytes bytes{0};
  Digest128 checksum{};
};

// Rows [first_row, first_row + n_rows) of a page of a group that shifts have cut.
struct RowPiece {
  std::uint32_t group = 0;
  std::uint32_t page = 0;
  std::uint32_t first_row = 0;
  std::uint32_t n_rows = 0;

  friend bool operator==(const RowPiece&, const RowPiece&) = default;
};

struct StateFileHeader {
  StateForm form = StateForm::kCompact;
  Lineage lineage = Lineage::kCold;
  Fingerprint fingerprint{};
  Position position{0};
  std::int64_t age = 0;  // position and all positions ever dropped by shifts
  std::vector<PositionRun> runs{};
  Layout layout{};
  // In order of group and position; empty for a group whose rows lie where their positions say:
  // position p in row p mod page_positions.
  std::vector<RowPiece> pieces{};
  std::vector<FileSection> sections{};
};

// The bytes of a state file, checked. A view: they must stay as they are while it is used.
// Threads: any number may read.
class StateFile {
 public:
  // Checks everything that can be checked without a sequence, all checksums included.
  // Errors: kBadFormat (no state file, or a header that contradicts itself); kStateVersion{actual,
  // expected}; kFileTruncated{actual: bytes there, expected: bytes needed}; kHeaderTooLong;
  // kChecksumMismatch{actual: offset of what is damaged}; those of Layout::validate and
  // make_geometry; kSnapshotBufferMismatch{layer, kind, actual, expected} for a section that is
  // longer or shorter than its rows; kByteSizeMismatch for one of no whole numbers;
  // kOffsetOutOfRange{actual, expected} for one in another place; kLimitExceeded{actual, expected:
  // layers}; kOutOfMemory.
  // Cost: reads every byte once.
  static Result<StateFile> open(std::span<const std::byte> bytes);

  // Whether `bytes` begin like a state file of any version.
  static bool is_state_file(std::span<const std::byte> bytes);

  const StateFileHeader& header() const { return header_; }
  Bytes bytes() const { return Bytes(static_cast<std::int64_t>(bytes_.size())); }
  // Of all sections of pages and the block.
  Bytes payload_bytes() const;
  // What was stored beside the state; empty if nothing was. Errors: kOutOfMemory.
  Result<std::vector<TokenId>> tokens() const;
  Result<std::vector<float>> logits() const;

  // Whether the file is of this layout and fingerprint. Errors: the first two of restore.
  Status check(const Layout& layout, const Fingerprint& expected) const;

  // Makes a sequence remember what the file does; ends an open step, clears poison.
  // Errors, each before anything changes: kSnapshotPlanMismatch{layer, kind of the first component
  // that differs} for another layout; kFingerprintMismatch; kContextBound{actual: the file's
  // position, expected: capacity}; kPoolExhausted (what the sequence holds stays until the copy is
  // complete; reset first to make room); kOutOfMemory; the device's.
  // Cost: a copy of the live bytes.
  Status restore(Sequence& into, const Fingerprint& expected) const;

 private:
  StateFile(std::span<const std::byte> bytes, StateFileHeader header, Geometry geometry)
      : bytes_(bytes), header_(std::move(header)), geometry_(std::move(geometry)) {}
  const FileSection* find(SectionKind kind) const;
  template <class Number>
  Result<std::vector<Number>> numbers_of(SectionKind kind) const;

  std::span<const std::byte> bytes_;
  StateFileHeader header_;
  Geometry geometry_;  // without rollback
};

// open, then restore.
Status load_state(Sequence& into, std::span<const std::byte> bytes, const Fingerprint& expected);

}  // namespace kvant::state
