#include "kvant/state/sequence.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

namespace kvant::state {
namespace {

std::uint64_t unsigned_of(std::int64_t value) { return static_cast<std::uint64_t>(value); }

Error component_missing(LayerIndex layer, ComponentKind kind) {
  return Error{.code = ErrorCode::kComponentMissing,
               .component = kind,
               .layer = static_cast<std::int32_t>(layer.value())};
}

// Rings and windowed append are planned, but no step can write them yet.
Status check_runnable(const Geometry& geometry) {
  for (const Placed& placed : geometry.components) {
    const Discipline discipline = placed.spec.discipline;
    if (discipline == Discipline::kRing || discipline == Discipline::kWindowedAppend) {
      return Error{.code = ErrorCode::kUnsupported,
                   .component = placed.spec.kind,
                   .layer = static_cast<std::int32_t>(placed.layer.value())};
    }
  }
  return ok();
}

}  // namespace

Result<Sequence> Sequence::create(std::shared_ptr<PagePool> pool, Tokens context) {
  if (context.value() < 1) return Error{.code = ErrorCode::kEmptyContext};
  const Plan& plan = pool->plan();
  if (context > plan.request.context) {
    return Error{.code = ErrorCode::kContextBound,
                 .actual = unsigned_of(context.value()),
                 .expected = unsigned_of(plan.request.context.value())};
  }
  KVANT_TRY(check_runnable(plan.geometry));
  const std::int64_t page = plan.layout.page_positions.value();
  const Pages pages((context.value() - 1) / page + 1);
  try {
    Sequence sequence;
    sequence.capacity_ = context;
    sequence.tables_.reserve(plan.geometry.groups.size());
    for (const PageGroup& group : plan.geometry.groups) {
      PageTable table = KVANT_TRY(PageTable::create(group, plan.layout.page_positions, pages));
      sequence.tables_.push_back(std::move(table));
    }
    sequence.needs_.resize(plan.geometry.n_classes());
    sequence.taken_.reserve(static_cast<std::size_t>(plan.objects_per_step()));
    sequence.block_ = pool->initial_block();
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
  position_ = other.position_;
  step_ = other.step_;
  poisoned_ = other.poisoned_;
  tables_ = std::move(other.tables_);
  block_ = std::move(other.block_);
  needs_ = std::move(other.needs_);
  taken_ = std::move(other.taken_);
  return *this;
}

Bytes Sequence::resident_bytes() const {
  Bytes sum = block_.bytes();
  for (const PageTable& table : tables_) {
    for (const PoolRef& page : table.pages()) sum += page.bytes();
  }
  return sum;
}

Bytes Sequence::table_bytes() const {
  const std::size_t scratch =
      needs_.capacity() * sizeof(std::int64_t) + taken_.capacity() * sizeof(PoolRef);
  Bytes sum(static_cast<std::int64_t>(scratch));
  for (const PageTable& table : tables_) sum += table.heap_bytes();
  return sum;
}

Status Sequence::prepare(Tokens n) {
  if (poisoned_) return Error{.code = ErrorCode::kPoisoned};
  if (step_open()) return Error{.code = ErrorCode::kStepOpen};
  if (n.value() < 1) return Error{.code = ErrorCode::kEmptyPrefill};
  const Tokens room = capacity_ - (position_ - Position(0));
  if (room == Tokens(0)) {
    return Error{.code = ErrorCode::kContextExhausted,
                 .actual = unsigned_of(position_.value()),
                 .expected = unsigned_of(capacity_.value())};
  }
  if (n > room) {
    return Error{.code = ErrorCode::kContextBound,
                 .actual = unsigned_of(position_.value()) + unsigned_of(n.value()),
                 .expected = unsigned_of(capacity_.value())};
  }
  const Position end = position_ + n;
  KVANT_TRY(count_needs(end));
  Status status = pool_->take(needs_, taken_);
  if (status) status = copy_shared(end);
  if (status) {
    publish(end);
    step_ = n;
  }
  taken_.clear();  // after a failure: back to the pool
  return status;
}

// Fills needs_ with the objects that a step to `end` takes, and sizes taken_ for them.
Status Sequence::count_needs(Position end) {
  const std::int64_t page = layout().page_positions.value();
  const std::int64_t n_pages = (end.value() - 1) / page + 1;
  const bool open_page = position_.value() % page != 0;
  std::int64_t sum = 0;
  for (std::size_t group = 0; group < tables_.size(); ++group) {
    const PageTable& table = tables_[group];
    const bool copy = open_page && !table.pages().back().is_unique();
    needs_[group] = n_pages - table.n_pages().value() + (copy ? 1 : 0);
    sum += needs_[group];
  }
  if (block_) {
    const std::int64_t copy = block_.is_unique() ? 0 : 1;
    needs_[pool_->geometry().block_class()] = copy;
    sum += copy;
  }
  try {
    taken_.resize(static_cast<std::size_t>(sum));
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory, .actual = unsigned_of(sum) * sizeof(PoolRef)};
  }
  return ok();
}

// How many of the objects taken for a group are new pages; one more is a copy of the open page.
std::int64_t Sequence::n_new_pages(std::size_t group, Position end) const {
  const std::int64_t page = layout().page_positions.value();
  return (end.value() - 1) / page + 1 - tables_[group].n_pages().value();
}

// Copies what the step will write and somebody else refers to, into the objects taken.
Status Sequence::copy_shared(Position end) {
  std::size_t next = 0;
  for (std::size_t group = 0; group < tables_.size(); ++group) {
    if (needs_[group] > n_new_pages(group, end)) {
      KVANT_TRY(copy_open_rows(group, taken_[next].data()));
    }
    next += static_cast<std::size_t>(needs_[group]);
  }
  if (next < taken_.size()) {
    KVANT_TRY(pool_->device().copy(taken_[next].data(), block_.data(), block_.bytes()));
  }
  return ok();
}

// The rows written so far and nothing else: the rest of a page may be large, and is nobody's.
Status Sequence::copy_open_rows(std::size_t group, std::byte* to) const {
  const Geometry& geometry = pool_->geometry();
  const std::int64_t positions = position_.value() % geometry.page_positions.value();
  const std::byte* from = tables_[group].pages().back().data();
  for (const std::size_t member : geometry.groups[group].members) {
    const Placed& placed = geometry.components[member];
    const Bytes bytes = placed.row_bytes * (positions / placed.spec.ratio);
    for (std::int64_t head = 0; head < placed.spec.n_heads.value(); ++head) {
      const std::int64_t offset = placed.offset.value() + head * placed.head_stride.value();
      KVANT_TRY(pool_->device().copy(to + offset, from + offset, bytes));
    }
  }
  return ok();
}

void Sequence::publish(Position end) noexcept {
  std::size_t next = 0;
  for (std::size_t group = 0; group < tables_.size(); ++group) {
    PageTable& table = tables_[group];
    std::int64_t n_new = n_new_pages(group, end);
    if (needs_[group] > n_new) table.replace_last(std::move(taken_[next++]));
    for (; n_new > 0; --n_new) table.append(std::move(taken_[next++]));
    table.show(position_, end);
  }
  if (next < taken_.size()) block_ = std::move(taken_[next]);
}

const Placed* Sequence::find(LayerIndex layer, ComponentKind kind, Place place) const {
  const Placed* placed = pool_->geometry().find(layer, kind);
  const bool in_page = placed != nullptr && placed->group >= 0;
  return in_page == (place == Place::kPage) ? placed : nullptr;
}

tensor::PagedRows Sequence::view(const Placed& placed) const {
  return {.extents = tables_[static_cast<std::size_t>(placed.group)].extents(placed.table),
          .offset_bytes = placed.offset.value(),
          .head_stride_bytes = placed.head_stride.value(),
          .row_bytes = placed.row_bytes.value(),
          .n_heads = static_cast<std::int32_t>(placed.spec.n_heads.value()),
          .row_width = static_cast<std::int32_t>(placed.spec.row_width.value()),
          .dtype = codec::dtype_of(placed.spec.codec)};
}

std::span<float> Sequence::block_floats(const Placed& placed) const {
  auto* floats = reinterpret_cast<float*>(block_.data() + placed.offset.value());
  return {floats, placed.spec.n_rows.size() * placed.spec.width.size()};
}

Result<tensor::PagedRows> Sequence::rows(LayerIndex layer, ComponentKind kind) const {
  if (!step_open()) return Error{.code = ErrorCode::kStepNotPrepared};
  const Placed* placed = find(layer, kind, Place::kPage);
  if (placed == nullptr) return component_missing(layer, kind);
  return view(*placed);
}

Result<std::span<float>> Sequence::recurrent(LayerIndex layer, ComponentKind kind) {
  if (!step_open()) return Error{.code = ErrorCode::kStepNotPrepared};
  const Placed* placed = find(layer, kind, Place::kBlock);
  if (placed == nullptr) return component_missing(layer, kind);
  return block_floats(*placed);
}

Status Sequence::check_readable() const {
  if (poisoned_) return Error{.code = ErrorCode::kPoisoned};
  if (step_open()) return Error{.code = ErrorCode::kStepOpen};
  return ok();
}

Result<tensor::PagedRows> Sequence::read_rows(LayerIndex layer, ComponentKind kind) const {
  KVANT_TRY(check_readable());
  const Placed* placed = find(layer, kind, Place::kPage);
  if (placed == nullptr) return component_missing(layer, kind);
  return view(*placed);
}

Result<std::span<const float>> Sequence::read_recurrent(LayerIndex layer,
                                                        ComponentKind kind) const {
  KVANT_TRY(check_readable());
  const Placed* placed = find(layer, kind, Place::kBlock);
  if (placed == nullptr) return component_missing(layer, kind);
  return std::span<const float>(block_floats(*placed));
}

Status Sequence::commit(Position start, Tokens n) noexcept {
  if (poisoned_) return Error{.code = ErrorCode::kPoisoned};
  if (n.value() < 1) return Error{.code = ErrorCode::kEmptyPrefill};
  if (start != position_) {
    return Error{.code = ErrorCode::kStepOutOfOrder,
                 .actual = unsigned_of(start.value()),
                 .expected = unsigned_of(position_.value())};
  }
  if (n != step_) {
    return Error{.code = ErrorCode::kStepNotPrepared,
                 .actual = unsigned_of(n.value()),
                 .expected = unsigned_of(step_.value())};
  }
  position_ += n;
  step_ = Tokens(0);
  return ok();
}

void Sequence::poison() noexcept {
  if (!step_open()) return;
  step_ = Tokens(0);
  poisoned_ = true;
}

// Refers to nothing but the block of initial values.
void Sequence::forget() noexcept {
  for (PageTable& table : tables_) table.clear();
  block_ = pool_->initial_block();
  position_ = Position(0);
  step_ = Tokens(0);
  poisoned_ = false;
}

Status Sequence::reset() {
  forget();
  return ok();
}

Result<Snapshot> Sequence::snapshot() const {
  KVANT_TRY(check_readable());
  try {
    auto content = std::make_shared<Snapshot::Content>();
    content->pool = pool_;
    content->position = position_;
    content->pages.reserve(tables_.size());
    for (const PageTable& table : tables_) {
      content->pages.emplace_back(table.pages().begin(), table.pages().end());
    }
    content->block = block_;
    return Snapshot(std::move(content));
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

Status Sequence::restore(const Snapshot& snapshot) {
  const Snapshot::Content& content = *snapshot.content_;
  if (content.pool != pool_) {
    const bool equal = content.pool->plan().layout == layout();
    return Error{.code = equal ? ErrorCode::kUnsupported : ErrorCode::kSnapshotPlanMismatch};
  }
  if (content.position - Position(0) > capacity_) {
    return Error{.code = ErrorCode::kContextBound,
                 .actual = unsigned_of(content.position.value()),
                 .expected = unsigned_of(capacity_.value())};
  }
  forget();
  for (std::size_t group = 0; group < tables_.size(); ++group) {
    for (const PoolRef& page : content.pages[group]) tables_[group].append(page);
    tables_[group].show(Position(0), content.position);
  }
  block_ = content.block;
  position_ = content.position;
  return ok();
}

Result<Sequence> Sequence::fork() const {
  const Snapshot here = KVANT_TRY(snapshot());
  Sequence other = KVANT_TRY(create(pool_, capacity_));
  KVANT_TRY(other.restore(here));
  return other;
}

void prepare_all(std::span<Sequence* const> sequences, std::span<const Tokens> counts,
                 std::span<Status> statuses) {
  KVANT_CHECK(sequences.size() == counts.size() && sequences.size() == statuses.size());
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    statuses[i] = sequences[i]->prepare(counts[i]);
  }
}

}  // namespace kvant::state
