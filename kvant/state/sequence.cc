// Creation, views, snapshots. The step protocol is in sequence_step.cc, what moves contents between
// sequences in sequence_move.cc, context shifts in sequence_shift.cc.
#include "kvant/state/sequence.h"

#include <algorithm>
#include <new>
#include <utility>

namespace kvant::state {
namespace {

Error component_missing(LayerIndex layer, ComponentKind kind) {
  return Error{.code = ErrorCode::kComponentMissing,
               .component = kind,
               .layer = static_cast<std::int32_t>(layer.value())};
}

// Positions [first, end) of a ring as runs of slots.
std::size_t slots_of(std::int64_t first, std::int64_t end, std::int64_t n_slots,
                     std::array<tensor::Extent, 2>& extents) {
  std::size_t n = 0;
  while (first < end) {
    const std::int64_t slot = first % n_slots;
    const std::int64_t here = std::min(end - first, n_slots - slot);
    extents[n++] = {.page = nullptr,
                    .first_row = static_cast<std::int32_t>(slot),
                    .n_rows = static_cast<std::int32_t>(here),
                    .position_delta = 0};
    first += here;
  }
  return n;
}

}  // namespace

Result<Sequence> Sequence::create(std::shared_ptr<PagePool> pool, Tokens context) {
  if (context.value() < 1) return Error{.code = ErrorCode::kEmptyContext};
  const Plan& plan = pool->plan();
  if (context > plan.request.context) {
    return Error{.code = ErrorCode::kContextBound,
                 .actual = context.size(),
                 .expected = plan.request.context.size()};
  }
  try {
    Sequence sequence;
    sequence.capacity_ = context;
    const Geometry& geometry = plan.geometry;
    sequence.contents_.tables.reserve(geometry.groups.size());
    for (std::size_t group = 0; group < geometry.groups.size(); ++group) {
      PageTable table =
          KVANT_TRY(PageTable::create(geometry.groups[group], plan.layout.page_positions,
                                      plan.group_pages_for(group, context)));
      sequence.contents_.tables.push_back(std::move(table));
    }
    if (geometry.has_recurrent) {
      sequence.contents_.versions.resize(geometry.max_rollback.size() + 1);
    }
    sequence.contents_.runs.reserve(static_cast<std::size_t>(kMaxRuns));
    sequence.contents_.clear(pool->initial_block());
    sequence.rings_.resize(geometry.rings.size());
    sequence.needs_.resize(geometry.n_classes());
    sequence.taken_.reserve(static_cast<std::size_t>(plan.objects_per_step()));
    sequence.pool_ = std::move(pool);
    return sequence;
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  if (this == &other) return *this;
  // The old pages leave with `old`, before the pool they belong to.
  Sequence old(std::move(*this));
  pool_ = std::move(other.pool_);
  capacity_ = other.capacity_;
  contents_ = std::move(other.contents_);
  step_ = other.step_;
  poisoned_ = other.poisoned_;
  all_versions_ = other.all_versions_;
  rings_ = std::move(other.rings_);
  needs_ = std::move(other.needs_);
  taken_ = std::move(other.taken_);
  return *this;
}

Bytes Sequence::resident_bytes() const {
  Bytes sum = contents_.block.bytes();
  for (std::size_t group = 0; group < contents_.tables.size(); ++group) {
    const PageTable& table = contents_.tables[group];
    const auto n = static_cast<std::int64_t>(table.pages().size()) + table.n_spare();
    sum += pool_->geometry().groups[group].page_bytes * n;
  }
  return sum;
}

Bytes Sequence::table_bytes() const {
  const std::size_t lists = needs_.capacity() * sizeof(std::int64_t) +
                            taken_.capacity() * sizeof(PoolRef) +
                            rings_.capacity() * sizeof(RingExtents) +
                            contents_.versions.capacity() * sizeof(std::int64_t) +
                            contents_.runs.capacity() * sizeof(PositionRun) +
                            contents_.tables.capacity() * sizeof(PageTable);
  Bytes sum(static_cast<std::int64_t>(lists));
  for (const PageTable& table : contents_.tables) sum += table.heap_bytes();
  return sum;
}

Bytes Sequence::table_bytes_for(const Plan& plan) {
  const Geometry& geometry = plan.geometry;
  const std::size_t versions = geometry.has_recurrent ? geometry.max_rollback.size() + 1 : 0;
  const std::size_t lists = geometry.n_classes() * sizeof(std::int64_t) +
                            static_cast<std::size_t>(plan.objects_per_step()) * sizeof(PoolRef) +
                            geometry.rings.size() * sizeof(RingExtents) +
                            versions * sizeof(std::int64_t) +
                            static_cast<std::size_t>(kMaxRuns) * sizeof(PositionRun) +
                            geometry.groups.size() * sizeof(PageTable);
  Bytes sum(static_cast<std::int64_t>(lists));
  for (std::size_t group = 0; group < geometry.groups.size(); ++group) {
    sum += PageTable::heap_bytes_for(geometry.groups[group], plan.group_pages[group]);
  }
  return sum;
}

const Placed* Sequence::find(LayerIndex layer, ComponentKind kind) const {
  return pool_->geometry().find(layer, kind);
}

tensor::PagedRows Sequence::view_of(const Placed& placed, std::span<const tensor::Extent> extents,
                                    std::int64_t first_row) const {
  return {.extents = extents,
          .offset_bytes = placed.offset.value(),
          .head_stride_bytes = placed.head_stride.value(),
          .row_bytes = placed.row_bytes.value(),
          .n_heads = static_cast<std::int32_t>(placed.spec.n_heads.value()),
          .row_width = static_cast<std::int32_t>(placed.spec.row_width.value()),
          .dtype = codec::dtype_of(placed.spec.codec),
          .first_row = first_row};
}

tensor::PagedRows Sequence::view(const Placed& placed) const {
  const PageTable& table = contents_.tables[static_cast<std::size_t>(placed.group)];
  return view_of(placed, table.extents(placed.table), table.first().value() / placed.spec.ratio);
}

tensor::PagedRows Sequence::ring_view(const Placed& placed) const {
  const RingExtents& ring = rings_[static_cast<std::size_t>(placed.table)];
  return view_of(placed, {ring.held.data(), ring.n_held}, ring.first_held);
}

Result<tensor::PagedRows> Sequence::any_rows(LayerIndex layer, ComponentKind kind) const {
  const Placed* placed = find(layer, kind);
  if (placed == nullptr || placed->spec.discipline == Discipline::kRecurrent) {
    return component_missing(layer, kind);
  }
  return placed->group >= 0 ? view(*placed) : ring_view(*placed);
}

Result<tensor::PagedRows> Sequence::rows(LayerIndex layer, ComponentKind kind) const {
  if (!step_open()) return Error{.code = ErrorCode::kStepNotPrepared};
  return any_rows(layer, kind);
}

Result<tensor::PagedRows> Sequence::ring_slots(LayerIndex layer, ComponentKind kind) const {
  if (!step_open()) return Error{.code = ErrorCode::kStepNotPrepared};
  const Placed* placed = find(layer, kind);
  if (placed == nullptr || placed->spec.discipline != Discipline::kRing) {
    return component_missing(layer, kind);
  }
  const RingExtents& ring = rings_[static_cast<std::size_t>(placed->table)];
  return view_of(*placed, {ring.slots.data(), ring.n_slots}, ring.first_slot);
}

std::span<float> Sequence::version_of(const Placed& placed, std::int64_t age) const {
  const Bytes offset = placed.offset + placed.version_bytes * (age % placed.n_slots);
  auto* floats = reinterpret_cast<float*>(contents_.block.data() + offset.value());
  return {floats, placed.spec.n_rows.size() * placed.spec.width.size()};
}

Result<std::span<float>> Sequence::recurrent(LayerIndex layer, ComponentKind kind) {
  return recurrent_version(layer, kind, step_);
}

Tokens Sequence::n_versions() const {
  return std::min(step_, pool_->geometry().max_rollback + Tokens(1));
}

Result<std::span<float>> Sequence::recurrent_version(LayerIndex layer, ComponentKind kind,
                                                     Tokens done) {
  if (!step_open()) return Error{.code = ErrorCode::kStepNotPrepared};
  const Placed* placed = find(layer, kind);
  if (placed == nullptr || placed->spec.discipline != Discipline::kRecurrent) {
    return component_missing(layer, kind);
  }
  if (done > step_ || done <= step_ - n_versions()) {
    return Error{
        .code = ErrorCode::kInvalidArgument, .actual = done.size(), .expected = step_.size()};
  }
  return version_of(*placed, contents_.age + done.value());
}

Status Sequence::check_readable() const {
  if (poisoned_) return Error{.code = ErrorCode::kPoisoned};
  if (step_open()) return Error{.code = ErrorCode::kStepOpen};
  return ok();
}

Result<tensor::PagedRows> Sequence::read_rows(LayerIndex layer, ComponentKind kind) const {
  KVANT_TRY(check_readable());
  return any_rows(layer, kind);
}

Result<std::span<const float>> Sequence::read_recurrent(LayerIndex layer,
                                                        ComponentKind kind) const {
  KVANT_TRY(check_readable());
  const Placed* placed = find(layer, kind);
  if (placed == nullptr || placed->spec.discipline != Discipline::kRecurrent) {
    return component_missing(layer, kind);
  }
  return std::span<const float>(version_of(*placed, contents_.age));
}

// Rings as they stand now, and where the open step's rows go.
void Sequence::refresh_rings() noexcept {
  const auto& shapes = pool_->geometry().rings;
  const std::int64_t position = contents_.position.value();
  const std::int64_t end = position + step_.value();
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    RingExtents& ring = rings_[i];
    const RingShape& shape = shapes[i];
    ring.first_held = live_rows(shape.window, shape.group, contents_.position).begin;
    ring.n_held = slots_of(ring.first_held, position, shape.n_slots, ring.held);
    ring.first_slot = std::max(position, end - shape.n_slots);
    ring.n_slots = slots_of(ring.first_slot, end, shape.n_slots, ring.slots);
    std::byte* block = contents_.block.data();
    for (tensor::Extent& extent : ring.held) extent.page = block;
    for (tensor::Extent& extent : ring.slots) extent.page = block;
  }
}

Result<Snapshot> Sequence::snapshot() const {
  KVANT_TRY(check_readable());
  try {
    auto content = std::make_shared<Snapshot::Content>();
    content->pool = pool_;
    content->contents = contents_.copy();
    return Snapshot(std::move(content));
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

}  // namespace kvant::state
