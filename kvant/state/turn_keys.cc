#include "kvant/state/turn_keys.h"

#include <algorithm>
#include <new>
#include <utility>

#include "kvant/kernels/rotate_rows.h"
#include "kvant/state/page_copy.h"

namespace kvant::state {

class KeyTurner {
 public:
  KeyTurner(Sequence& sequence, const kernels::KernelTable& table, const KeyRotation& rotation)
      : sequence_(sequence),
        geometry_(sequence.pool_->geometry()),
        table_(table),
        rotation_(rotation) {}

  // Throws std::bad_alloc, having changed nothing.
  Status run() {
    KVANT_TRY(sequence_.check_readable());
    for (const Placed& placed : geometry_.components) KVANT_TRY(check(placed));
    const auto width = static_cast<std::size_t>(rotation_.frequencies->width());
    cos_.resize(width);
    sin_.resize(width);
    KVANT_TRY(own_pages());
    for (const Placed& placed : geometry_.components) {
      if (is_turned(placed)) turn(placed);
    }
    for (PageTable& table : sequence_.contents_.tables) table.clear_deltas();
    sequence_.contents_.runs.assign(1, PositionRun{});
    return ok();
  }

 private:
  bool is_turned(const Placed& placed) const {
    return placed.spec.kind == rotation_.kind && placed.group >= 0;
  }

  Status check(const Placed& placed) const {
    if (!is_turned(placed)) return ok();
    const bool whole = placed.spec.row_width.value() == 2 * rotation_.frequencies->width();
    if (whole && tensor::is_float(codec::dtype_of(placed.spec.codec))) return ok();
    return Error{.code = ErrorCode::kUnsupported,
                 .component = placed.spec.kind,
                 .layer = static_cast<std::int32_t>(placed.layer.value())};
  }

  bool moved(const PageTable& table, std::size_t page) const {
    const auto extents = table.extents_of(0, page);
    return std::ranges::any_of(extents, [](const auto& e) { return e.position_delta != 0; });
  }

  // Gives the sequence pages of its own where keys will be turned.
  Status own_pages() {
    auto& tables = sequence_.contents_.tables;
    std::vector<std::int64_t> counts(geometry_.n_classes(), 0);
    std::vector<std::pair<std::size_t, std::size_t>> shared;  // group, page
    for (std::size_t group = 0; group < tables.size(); ++group) {
      for (std::size_t page = 0; page < tables[group].pages().size(); ++page) {
        if (!moved(tables[group], page) || tables[group].pages()[page].is_unique()) continue;
        shared.emplace_back(group, page);
        ++counts[group];
      }
    }
    std::vector<PoolRef> copies(shared.size());
    KVANT_TRY(sequence_.pool_->take(counts, copies));
    for (std::size_t i = 0; i < shared.size(); ++i) {
      const auto [group, page] = shared[i];
      KVANT_TRY(copy_page(sequence_.pool_->device(), geometry_,
                          {.group = group, .table = &tables[group]}, page, copies[i].data()));
    }
    KVANT_TRY(sequence_.pool_->device().synchronize());
    for (std::size_t i = 0; i < shared.size(); ++i) {
      tables[shared[i].first].replace(shared[i].second, std::move(copies[i]));
    }
    return ok();
  }

  void turn(const Placed& placed) {
    const tensor::PagedRows all = sequence_.view(placed);
    std::int64_t delta = 0;  // of the angles at hand
    for (const tensor::Extent& extent : all.extents) {
      if (extent.position_delta == 0) continue;
      if (extent.position_delta != delta) {
        delta = extent.position_delta;
        rotation_.frequencies->angles(Tokens(delta), cos_.data(), sin_.data());
      }
      tensor::PagedRows rows = all;
      rows.extents = {&extent, 1};
      kernels::rotate_rows(
          table_,
          {.rows = rows, .cos = cos_.data(), .sin = sin_.data(), .pairing = rotation_.pairing});
    }
  }

  Sequence& sequence_;
  const Geometry& geometry_;
  const kernels::KernelTable& table_;
  KeyRotation rotation_;
  std::vector<float> cos_{};
  std::vector<float> sin_{};
};

Status turn_stored_keys(Sequence& sequence, const kernels::KernelTable& table,
                        const KeyRotation& rotation) {
  try {
    return KeyTurner(sequence, table, rotation).run();
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

}  // namespace kvant::state
