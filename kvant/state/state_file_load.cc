// From a checked state file to what a sequence remembers.
#include <algorithm>
#include <new>
#include <utility>

#include "kvant/state/page_table.h"
#include "kvant/state/state_file.h"
#include "kvant/state/state_sections.h"

namespace kvant::state {
namespace {

// Copies what is visited from a section to the page or block at `to`.
class Placer final : public SectionVisitor {
 public:
  Placer(tensor::Device& device, std::span<const std::byte> section, std::byte* to)
      : device_(device), section_(section), to_(to) {}

  Status live(Bytes offset, Bytes bytes) override {
    KVANT_TRY(device_.copy(to_ + offset.value(), section_.data(), bytes));
    section_ = section_.subspan(bytes.size());
    return ok();
  }
  Status dead(Bytes bytes, float) override {
    section_ = section_.subspan(bytes.size());
    return ok();
  }

 private:
  tensor::Device& device_;
  std::span<const std::byte> section_;
  std::byte* to_;
};

// Builds contents of a pool's objects from a file of the pool's layout.
class Loader {
 public:
  Loader(std::shared_ptr<PagePool> pool, const StateFileHeader& header, const Geometry& filed,
         std::span<const std::byte> file)
      : pool_(std::move(pool)), header_(header), filed_(filed), file_(file) {}

  // Throws std::bad_alloc.
  Result<Snapshot> run() {
    KVANT_TRY(take_objects());
    std::size_t next = 0;
    for (const FileSection& section : header_.sections) {
      if (section.kind != SectionKind::kPage && section.kind != SectionKind::kBlock) continue;
      KVANT_TRY(place(section, objects_[next++].data()));
    }
    KVANT_TRY(pool_->device().synchronize());
    Contents contents = KVANT_TRY(make_contents());
    return Snapshot::of(pool_, std::move(contents));
  }

 private:
  FiledRows rows_of(std::size_t group) const {
    return {filed_, group, header_.position, pieces_of_group(header_.pieces, group)};
  }

  // One for each section of a page, then the block: the order of classes is that of sections.
  Status take_objects() {
    std::vector<std::int64_t> counts(filed_.n_classes(), 0);
    std::size_t sum = 0;
    for (std::size_t group = 0; group < filed_.groups.size(); ++group) {
      const std::uint64_t n = rows_of(group).n_pages();
      counts[group] = static_cast<std::int64_t>(n);
      sum += n;
    }
    if (filed_.block_bytes > Bytes(0)) {
      counts[filed_.block_class()] = 1;
      ++sum;
    }
    objects_.resize(sum);
    return pool_->take(counts, objects_);
  }

  Status place(const FileSection& section, std::byte* to) const {
    Placer placer(pool_->device(), file_.subspan(section.offset.size(), section.bytes.size()), to);
    if (section.kind == SectionKind::kBlock) {
      return visit_block({.memory = &pool_->geometry(),
                          .filed = &filed_,
                          .position = header_.position,
                          .age = header_.age,
                          .form = header_.form},
                         placer);
    }
    RowPiece whole;
    return visit_page(filed_.groups[section.group], filed_,
                      rows_of(section.group).pieces_of(section.page, whole), header_.form, placer);
  }

  Result<Contents> make_contents() {
    Contents contents;
    contents.position = header_.position;
    contents.age = header_.age;
    contents.lineage = header_.lineage;
    contents.runs = header_.runs;
    if (filed_.has_recurrent) {
      const std::size_t n = pool_->geometry().max_rollback.size() + 1;
      contents.versions.assign(n, -1);
      contents.versions[static_cast<std::size_t>(header_.age) % n] = header_.age;
    }
    std::span<PoolRef> left(objects_);
    for (std::size_t group = 0; group < filed_.groups.size(); ++group) {
      const std::size_t n = rows_of(group).n_pages();
      PageTable table = KVANT_TRY(make_table(group, left.first(n)));
      contents.tables.push_back(std::move(table));
      left = left.subspan(n);
    }
    if (!left.empty()) contents.block = std::move(left.front());
    return contents;
  }

  // Cut, if it is or if later rows will have deltas, and where a window begins within a page: the
  // rows before it are not there. A page without rows is not needed then.
  Result<PageTable> make_table(std::size_t group, std::span<PoolRef> pages) const {
    PageTable table = KVANT_TRY(PageTable::create(filed_.groups[group], filed_.page_positions,
                                                  Pages(static_cast<std::int64_t>(pages.size()))));
    const FiledRows rows = rows_of(group);
    const std::int64_t in_page = rows.first().value() % filed_.page_positions.value();
    const bool has_rows = rows.first() < rows.end();
    const bool has_deltas = header_.runs.size() > 1 || header_.runs.front().delta != 0;
    if (!rows.is_cut() && !has_deltas && (in_page == 0 || !has_rows)) {
      table.fill(Position(rows.first().value() - in_page), rows.end(), pages);
      return table;
    }
    if (!has_rows) pages = {};
    std::vector<tensor::Extent> extents;
    std::int64_t position = rows.first().value();
    for (std::size_t page = 0; page < pages.size(); ++page) {
      RowPiece whole;
      for (const RowPiece& piece : rows.pieces_of(page, whole)) {
        extents.push_back({.page = pages[page].data(),
                           .first_row = static_cast<std::int32_t>(piece.first_row),
                           .n_rows = static_cast<std::int32_t>(piece.n_rows),
                           .position_delta = delta_at(position)});
        position += piece.n_rows;
      }
    }
    table.fill_cut(rows.first(), pages, extents);
    return table;
  }

  std::int64_t delta_at(std::int64_t position) const {
    const auto behind =
        std::ranges::upper_bound(header_.runs, Position(position), {}, &PositionRun::first);
    return std::prev(behind)->delta;
  }

  std::shared_ptr<PagePool> pool_;  // first, so that it goes after the objects
  const StateFileHeader& header_;
  const Geometry& filed_;
  std::span<const std::byte> file_;
  std::vector<PoolRef> objects_;
};

}  // namespace

Status StateFile::check(const Layout& layout, const Fingerprint& expected) const {
  if (layout != header_.layout) {
    return first_difference(ErrorCode::kSnapshotPlanMismatch, layout, header_.layout);
  }
  if (header_.fingerprint != expected) return Error{.code = ErrorCode::kFingerprintMismatch};
  return ok();
}

Status StateFile::restore(Sequence& into, const Fingerprint& expected) const {
  KVANT_TRY(check(into.layout(), expected));
  if (header_.position - Position(0) > into.capacity()) {
    return Error{.code = ErrorCode::kContextBound,
                 .actual = static_cast<std::uint64_t>(header_.position.value()),
                 .expected = into.capacity().size()};
  }
  try {
    const Snapshot snapshot = KVANT_TRY(Loader(into.pool(), header_, geometry_, bytes_).run());
    return into.restore(snapshot);
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

Status load_state(Sequence& into, std::span<const std::byte> bytes, const Fingerprint& expected) {
  const StateFile file = KVANT_TRY(StateFile::open(bytes));
  return file.restore(into, expected);
}

}  // namespace kvant::state
