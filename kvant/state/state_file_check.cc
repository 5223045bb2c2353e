#include "kvant/state/state_file_check.h"

#include <algorithm>

#include "kvant/state/state_file_header.h"
#include "kvant/state/state_sections.h"

namespace kvant::state {
namespace {

Error bad_format() { return Error{.code = ErrorCode::kBadFormat}; }

bool is_plain(const std::vector<PositionRun>& runs) {
  return runs.size() == 1 && runs.front() == PositionRun{};
}

// Runs begin at 0, ascend, and say of no position that it was stored beyond what was ever there.
Status check_timeline(const StateFileHeader& header) {
  const std::int64_t position = header.position.value();
  if (position < 0 || header.age < position || header.age > kMaxAge) return bad_format();
  const auto& runs = header.runs;
  if (runs.empty() || static_cast<std::int64_t>(runs.size()) > kMaxRuns) return bad_format();
  if (runs.front().first != Position(0)) return bad_format();
  const std::int64_t n_dropped = header.age - position;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].delta > 0 || runs[i].delta < -n_dropped) return bad_format();
    if (i == 0) continue;
    const bool ascends = runs[i].first > runs[i - 1].first && runs[i].first < header.position;
    if (!ascends || runs[i].delta == runs[i - 1].delta) return bad_format();
  }
  const bool fresh = n_dropped == 0 && is_plain(runs) && header.pieces.empty();
  if (header.lineage == Lineage::kCold && !fresh) return bad_format();
  return ok();
}

// Whether rows [position, position + n) have one delta.
bool in_one_run(const std::vector<PositionRun>& runs, std::int64_t position, std::int64_t n) {
  return std::ranges::none_of(runs, [&](const PositionRun& run) {
    return run.first.value() > position && run.first.value() < position + n;
  });
}

// The pieces of a group that was cut: pages in order and none without rows, rows of a page
// ascending, together exactly the rows that are live, with holes for less than two pages.
Status check_pieces(const StateFileHeader& header, const Geometry& geometry, std::size_t group) {
  const FiledRows rows(geometry, group, header.position, pieces_of_group(header.pieces, group));
  const auto pieces = rows.pieces();
  const std::int64_t page_positions = geometry.page_positions.value();
  const std::vector<std::int64_t>& ratios = geometry.groups[group].ratios;
  if (ratios.size() != 1 || ratios.front() != 1) return bad_format();
  std::int64_t position = rows.first().value();
  std::uint32_t page = 0;
  std::int64_t next_row = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const RowPiece& piece = pieces[i];
    if (i == 0 ? piece.page != 0 : piece.page != page && piece.page != page + 1) {
      return bad_format();
    }
    if (piece.page != page) next_row = 0;
    page = piece.page;
    const std::int64_t end = std::int64_t{piece.first_row} + piece.n_rows;
    if (piece.n_rows == 0 || piece.first_row < next_row || end > page_positions) {
      return bad_format();
    }
    if (!in_one_run(header.runs, position, piece.n_rows)) return bad_format();
    next_row = end;
    position += piece.n_rows;
  }
  const std::int64_t n_pages = std::int64_t{page} + 1;
  const std::int64_t n_live = (rows.end() - rows.first()).value();
  const std::int64_t n_holes = (n_pages - 1) * page_positions + next_row - n_live;
  const bool too_many =
      static_cast<std::int64_t>(pieces.size()) >= n_pages + PageTable::kSpareExtents;
  if (position != header.position.value() || n_holes >= 2 * page_positions || too_many) {
    return bad_format();
  }
  return ok();
}

Status check_all_pieces(const StateFileHeader& header, const Geometry& geometry) {
  if (!std::ranges::is_sorted(header.pieces, {}, &RowPiece::group)) return bad_format();
  if (!header.pieces.empty() && header.pieces.back().group >= geometry.groups.size()) {
    return bad_format();
  }
  for (std::size_t group = 0; group < geometry.groups.size(); ++group) {
    if (!pieces_of_group(header.pieces, group).empty()) {
      KVANT_TRY(check_pieces(header, geometry, group));
    } else if (!is_plain(header.runs) && header.position > Position(0)) {
      // Rows that are stored elsewhere than they stand are always listed.
      const FiledRows rows(geometry, group, header.position, {});
      if (rows.first() < rows.end()) return bad_format();
    }
  }
  return ok();
}

// Walks the sections and what they should be side by side.
class SectionCheck {
 public:
  SectionCheck(const StateFileHeader& header, const Geometry& geometry)
      : header_(header), geometry_(geometry) {}

  Status run() {
    for (std::size_t group = 0; group < geometry_.groups.size(); ++group) {
      KVANT_TRY(check_group(group));
    }
    if (geometry_.block_bytes > Bytes(0)) KVANT_TRY(check_block());
    for (const SectionKind kind : {SectionKind::kTokens, SectionKind::kLogits}) {
      if (next_ < header_.sections.size() && header_.sections[next_].kind == kind) {
        KVANT_TRY(check_numbers(header_.sections[next_++]));
      }
    }
    return next_ == header_.sections.size() ? ok() : Status(bad_format());
  }

 private:
  Status check_group(std::size_t group) {
    const FiledRows rows(geometry_, group, header_.position,
                         pieces_of_group(header_.pieces, group));
    if (rows.n_pages() > header_.sections.size() - next_) return bad_format();
    for (std::uint64_t page = 0; page < rows.n_pages(); ++page) {
      const FileSection& section = header_.sections[next_++];
      const bool named =
          section.kind == SectionKind::kPage && section.group == group && section.page == page;
      if (!named) return bad_format();
      RowPiece whole;
      KVANT_TRY(check_bytes(section, static_cast<std::int32_t>(group),
                            page_section_bytes(geometry_.groups[group], geometry_,
                                               rows.pieces_of(page, whole), header_.form)));
    }
    return ok();
  }

  Status check_block() {
    if (next_ == header_.sections.size()) return bad_format();
    const FileSection& section = header_.sections[next_++];
    if (section.kind != SectionKind::kBlock || section.group != 0 || section.page != 0) {
      return bad_format();
    }
    return check_bytes(section, -1,
                       block_section_bytes({.filed = &geometry_,
                                            .position = header_.position,
                                            .age = header_.age,
                                            .form = header_.form}));
  }

  static Status check_numbers(const FileSection& section) {
    if (section.group != 0 || section.page != 0 || section.bytes == Bytes(0)) return bad_format();
    if (section.bytes.size() % sizeof(std::uint32_t) == 0) return ok();
    return Error{.code = ErrorCode::kByteSizeMismatch, .actual = section.bytes.size()};
  }

  Status check_bytes(const FileSection& section, std::int32_t group, Bytes expected) const {
    if (section.bytes == expected) return ok();
    const Placed* first = first_component(geometry_, group);
    return Error{.code = ErrorCode::kSnapshotBufferMismatch,
                 .component = first->spec.kind,
                 .layer = static_cast<std::int32_t>(first->layer.value()),
                 .actual = section.bytes.size(),
                 .expected = expected.size()};
  }

  const StateFileHeader& header_;
  const Geometry& geometry_;
  std::size_t next_ = 0;
};

}  // namespace

Status check_header(const StateFileHeader& header, const Geometry& geometry) {
  KVANT_TRY(check_timeline(header));
  KVANT_TRY(check_all_pieces(header, geometry));
  return SectionCheck(header, geometry).run();
}

Status check_offsets(const StateFileHeader& header, Bytes begin, Bytes file_bytes) {
  Bytes at = begin;
  for (const FileSection& section : header.sections) {
    if (section.offset != at) {
      return Error{.code = ErrorCode::kOffsetOutOfRange,
                   .actual = section.offset.size(),
                   .expected = at.size()};
    }
    // A file is a multiple of the alignment long, and so is `at`.
    if (section.bytes > file_bytes - at) {
      return Error{.code = ErrorCode::kFileTruncated,
                   .actual = file_bytes.size(),
                   .expected = at.size() + section.bytes.size()};
    }
    at = aligned(at + section.bytes);
  }
  return at == file_bytes ? ok() : Status(bad_format());
}

}  // namespace kvant::state
