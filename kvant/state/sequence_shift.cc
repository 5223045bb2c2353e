// Context shifts: positions are dropped, rows stay where they are.
#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "kvant/base/checked.h"
#include "kvant/kernels/rope_frequencies.h"
#include "kvant/state/page_copy.h"
#include "kvant/state/sequence.h"
#include "kvant/state/shift.h"

namespace kvant::state {
namespace {

// Keys are stored for positions up to here: what there are angles for.
constexpr std::int64_t kMaxStored = kernels::RopeFrequencies::kEndOfPositions - 1;

std::uint64_t unsigned_of(std::int64_t value) { return static_cast<std::uint64_t>(value); }

Error about(ErrorCode code, const Placed& placed) {
  return Error{.code = code,
               .component = placed.spec.kind,
               .layer = static_cast<std::int32_t>(placed.layer.value())};
}

// The timeline without positions [keep, keep + n): later ones are stored further behind.
void drop_from(std::vector<PositionRun>& runs, Position keep, Tokens n, Position end) {
  const Position behind = keep + n;
  std::vector<PositionRun> left;
  left.reserve(runs.size() + 1);
  const auto add = [&](PositionRun run) {
    if (!left.empty() && left.back().first == run.first) left.pop_back();
    if (left.empty() || left.back().delta != run.delta) left.push_back(run);
  };
  std::int64_t delta_behind = 0;
  for (const PositionRun& run : runs) {
    if (run.first < keep || run.first == Position(0)) add(run);
    if (run.first <= behind) delta_behind = run.delta;
  }
  if (behind < end) add({.first = keep, .delta = delta_behind - n.value()});
  for (const PositionRun& run : runs) {
    if (run.first > behind && run.first < end) {
      add({.first = Position(run.first.value() - n.value()), .delta = run.delta - n.value()});
    }
  }
  runs = std::move(left);
}

}  // namespace

std::string_view shift_refusal(const ComponentSpec& spec) {
  if (spec.discipline == Discipline::kRing) return "a ring holds rows by their position";
  if (spec.ratio != 1) return "a row stands for a group of positions";
  if (spec.bound_to_positions) return "a recurrent component is bound to positions";
  return {};
}

std::optional<ShiftObstacle> shift_obstacle(const Layout& layout) {
  for (std::size_t layer = 0; layer < layout.layers.size(); ++layer) {
    for (const ComponentSpec& spec : layout.layers[layer].components) {
      if (shift_refusal(spec).empty()) continue;
      return ShiftObstacle{.layer = LayerIndex(static_cast<std::int64_t>(layer)), .spec = spec};
    }
  }
  return std::nullopt;
}

Status Sequence::check_shift_range(const ShiftRequest& request) const {
  KVANT_TRY(check_readable());
  if (request.keep.value() < 0 || request.n.value() < 1) {
    const bool keep_wrong = request.keep.value() < 0;
    return Error{.code = ErrorCode::kInvalidArgument,
                 .actual = unsigned_of(keep_wrong ? request.keep.value() : request.n.value()),
                 .expected = keep_wrong ? 0U : 1U};
  }
  const auto end = checked_add(request.keep.value(), request.n.value());
  if (!end || *end > position().value()) {
    return Error{.code = ErrorCode::kShiftRange,
                 .actual = end ? unsigned_of(*end) : std::numeric_limits<std::uint64_t>::max(),
                 .expected = position().index()};
  }
  if (pool_->plan().request.shifts == Shifts::kNone) {
    return Error{.code = ErrorCode::kShiftNotPlanned};
  }
  const std::int64_t dropped = -contents_.runs.back().delta;
  if (const std::int64_t stored = dropped + *end + capacity_.value(); stored > kMaxStored) {
    return Error{.code = ErrorCode::kLimitExceeded,
                 .actual = unsigned_of(stored),
                 .expected = unsigned_of(kMaxStored)};
  }
  if (const auto obstacle = shift_obstacle(layout())) {
    return Error{.code = ErrorCode::kShiftRefused,
                 .component = obstacle->spec.kind,
                 .layer = static_cast<std::int32_t>(obstacle->layer.value())};
  }
  return ok();
}

Status Sequence::can_shift(const ShiftRequest& request) const {
  KVANT_TRY(check_shift_range(request));
  const Geometry& geometry = pool_->geometry();
  const Position end = Position(position().value() - request.n.value());
  for (std::size_t group = 0; group < geometry.groups.size(); ++group) {
    const Tokens window = geometry.groups[group].window;
    if (window == Tokens(0)) continue;
    // The oldest row held and the oldest needed, both as numbered after the shift.
    std::int64_t first = contents_.tables[group].first().value();
    if (first > request.keep.value()) {
      first = std::max(first, (request.keep + request.n).value()) - request.n.value();
    }
    const std::int64_t needed = std::max<std::int64_t>(end.value() - window.value() + 1, 0);
    if (first > needed && needed < end.value()) {
      Error error = about(ErrorCode::kShiftRowsReleased,
                          geometry.components[geometry.groups[group].members.front()]);
      error.actual = unsigned_of(first);
      error.expected = unsigned_of(needed);
      return error;
    }
  }
  return ok();
}

// Closes a hole that makes a page.
Status Sequence::compact(std::size_t group, PageTable& table) const {
  const PageTable::Compaction run = table.find_compaction();
  const std::int64_t page_positions = layout().page_positions.value();
  std::vector<std::int64_t> counts(pool_->geometry().n_classes(), 0);
  counts[group] = run.n_pages;
  std::vector<PoolRef> pages(static_cast<std::size_t>(run.n_pages));
  KVANT_TRY(pool_->take(counts, pages));
  std::int64_t row = 0;
  for (std::size_t page = run.begin; page < run.end; ++page) {
    for (tensor::Extent extent : table.extents_of(0, page)) {
      while (extent.n_rows > 0) {
        const std::int64_t in_page = row % page_positions;
        tensor::Extent part = extent;
        part.n_rows = static_cast<std::int32_t>(
            std::min<std::int64_t>(extent.n_rows, page_positions - in_page));
        KVANT_TRY(copy_extent(pool_->device(), pool_->geometry(), group, part,
                              pages[static_cast<std::size_t>(row / page_positions)].data(),
                              in_page));
        row += part.n_rows;
        extent.first_row += part.n_rows;
        extent.n_rows -= part.n_rows;
      }
    }
  }
  table.compact(run, pages);
  return ok();
}

// Copies of the tables without the dropped positions. Throws std::bad_alloc.
Result<std::vector<PageTable>> Sequence::shifted_tables(const ShiftRequest& request) const {
  const Geometry& geometry = pool_->geometry();
  const std::int64_t page_positions = layout().page_positions.value();
  std::vector<PageTable> tables;
  tables.reserve(contents_.tables.size());
  for (std::size_t group = 0; group < contents_.tables.size(); ++group) {
    tables.push_back(contents_.tables[group].copy());
    PageTable& table = tables.back();
    KVANT_TRY(table.reserve(pool_->plan().group_pages_for(group, capacity_)));
    table.drop(request.keep, request.n);
    if (const Tokens window = geometry.groups[group].window; window > Tokens(0)) {
      const std::int64_t low = table.end().value() - window.value() + 1;
      table.release_before(Position(std::max<std::int64_t>(low, 0)));
    }
    while (table.n_hole_rows() >= page_positions) KVANT_TRY(compact(group, table));
    const auto n_pieces = static_cast<std::int64_t>(table.extents(0).size());
    const auto room = static_cast<std::int64_t>(table.pages().size()) + PageTable::kSpareExtents;
    // One piece more may begin with the next step.
    if (n_pieces >= room) {
      return Error{.code = ErrorCode::kShiftPieces,
                   .actual = unsigned_of(n_pieces) + 1,
                   .expected = unsigned_of(room)};
    }
  }
  KVANT_TRY(pool_->device().synchronize());
  return tables;
}

Status Sequence::shift(const ShiftRequest& request) {
  KVANT_TRY(can_shift(request));
  try {
    std::vector<PositionRun> runs = contents_.runs;
    drop_from(runs, request.keep, request.n, position());
    if (static_cast<std::int64_t>(runs.size()) > kMaxRuns) {
      return Error{.code = ErrorCode::kShiftPieces,
                   .actual = runs.size(),
                   .expected = unsigned_of(kMaxRuns)};
    }
    std::vector<PageTable> tables = KVANT_TRY(shifted_tables(request));
    contents_.tables = std::move(tables);
    contents_.runs.assign(runs.begin(), runs.end());
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
  // The age stays: it names the version that recurrent components hold.
  contents_.position = Position(position().value() - request.n.value());
  contents_.depth = Tokens(0);
  contents_.lineage = Lineage::kDerived;
  refresh_rings();
  return ok();
}

}  // namespace kvant::state
