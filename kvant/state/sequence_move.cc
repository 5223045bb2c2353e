// What moves contents between sequences, snapshots and pools: restore, fork, growth, migration.
#include <algorithm>
#include <new>
#include <utility>

#include "kvant/state/page_copy.h"
#include "kvant/state/sequence.h"

namespace kvant::state {

// Makes room in the lists for what another sequence remembers.
Status Sequence::reserve_for(const Contents& contents) {
  for (std::size_t group = 0; group < contents_.tables.size(); ++group) {
    const auto n_pages = static_cast<std::int64_t>(contents.tables[group].pages().size());
    KVANT_TRY(contents_.tables[group].reserve(Pages(n_pages)));
  }
  return ok();
}

Status Sequence::restore(const Snapshot& snapshot) {
  const bool own = snapshot.pool() == pool_;
  if (!own && snapshot.layout() != layout()) {
    return first_difference(ErrorCode::kSnapshotPlanMismatch, layout(), snapshot.layout());
  }
  if (snapshot.position() - Position(0) > capacity_) {
    return Error{.code = ErrorCode::kContextBound,
                 .actual = snapshot.position().index(),
                 .expected = capacity_.size()};
  }
  KVANT_TRY(reserve_for(snapshot.contents()));
  if (!own) return restore_from_elsewhere(snapshot);
  step_ = Tokens(0);
  poisoned_ = false;
  contents_.assign(snapshot.contents());
  refresh_rings();
  return ok();
}

Status Sequence::restore_from_elsewhere(const Snapshot& snapshot) {
  const Geometry& geometry = snapshot.pool()->geometry();
  const Status done = import(snapshot.contents(), geometry);
  if (done || done.error().code != ErrorCode::kPoolExhausted) return done;
  const auto missing = static_cast<std::int64_t>(done.error().actual - done.error().expected);
  if (own_bytes() < Bytes(missing)) return done;
  // Only what this sequence holds can make room.
  step_ = Tokens(0);
  poisoned_ = true;
  contents_.clear(pool_->initial_block());
  refresh_rings();
  return import(snapshot.contents(), geometry);
}

// What would return to the pool if this sequence let go of everything.
Bytes Sequence::own_bytes() const {
  Bytes sum{0};
  for (std::size_t group = 0; group < contents_.tables.size(); ++group) {
    const PageTable& table = contents_.tables[group];
    std::int64_t n = table.n_spare();
    for (const PoolRef& page : table.pages()) n += page.is_unique() ? 1 : 0;
    sum += pool_->geometry().groups[group].page_bytes * n;
  }
  if (contents_.block && contents_.block.is_unique()) sum += contents_.block.bytes();
  return sum;
}

// Copies what another pool's contents remember into objects of this pool, then lets it take the
// place of what is here. Requires: an equal layout, room in the lists.
Status Sequence::import(const Contents& contents, const Geometry& geometry) {
  const Geometry& own = pool_->geometry();
  std::vector<std::int64_t> counts;
  std::vector<PoolRef> objects;
  const bool has_block = contents.block && contents.age > 0;
  try {
    counts.assign(own.n_classes(), 0);
    std::size_t sum = has_block ? 1 : 0;
    for (std::size_t group = 0; group < contents.tables.size(); ++group) {
      const std::size_t n = contents.tables[group].pages().size();
      counts[group] = static_cast<std::int64_t>(n);
      sum += n;
    }
    if (has_block) counts[own.block_class()] = 1;
    objects.resize(sum);
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
  KVANT_TRY(pool_->take(counts, objects));

  tensor::Device& device = pool_->device();
  std::size_t next = 0;
  for (std::size_t group = 0; group < contents.tables.size(); ++group) {
    const GroupPages pages{.group = group, .table = &contents.tables[group]};
    for (std::size_t i = 0; i < pages.table->pages().size(); ++i) {
      KVANT_TRY(copy_page(device, geometry, pages, i, objects[next++].data()));
    }
  }
  BlockAge age = contents.block_age();
  age.depth = std::min(age.depth, own.max_rollback);
  if (has_block) {
    KVANT_TRY(copy_live_block(device, age, {&geometry, contents.block.data()},
                              {&own, objects[next].data()}));
  }
  KVANT_TRY(device.synchronize());

  step_ = Tokens(0);
  poisoned_ = false;
  PoolRef block = has_block ? std::move(objects[next]) : pool_->initial_block();
  contents_.forget(std::move(block));
  next = 0;
  for (std::size_t group = 0; group < contents.tables.size(); ++group) {
    const std::size_t n = contents.tables[group].pages().size();
    contents_.tables[group].assign(contents.tables[group], std::span(objects).subspan(next, n));
    next += n;
  }
  contents_.position = contents.position;
  contents_.depth = age.depth;
  contents_.age = contents.age;
  contents_.lineage = contents.lineage;
  contents_.runs.assign(contents.runs.begin(), contents.runs.end());
  std::ranges::fill(contents_.versions, -1);
  for (std::int64_t back = 0; !contents_.versions.empty() && back <= age.depth.value(); ++back) {
    const auto from = static_cast<std::size_t>(contents.age - back);
    contents_.versions[from % contents_.versions.size()] =
        contents.versions[from % contents.versions.size()];
  }
  refresh_rings();
  return ok();
}

Result<Sequence> Sequence::fork() const {
  KVANT_TRY(check_readable());
  Sequence other = KVANT_TRY(create(pool_, capacity_));
  KVANT_TRY(other.reserve_for(contents_));
  other.contents_.assign(contents_);
  other.refresh_rings();
  return other;
}

Status Sequence::grow(Tokens context) {
  if (context <= capacity_) {
    return Error{.code = ErrorCode::kMigrationContext,
                 .actual = context.size(),
                 .expected = capacity_.size()};
  }
  const Plan& plan = pool_->plan();
  if (context > plan.request.context) {
    return Error{.code = ErrorCode::kContextBound,
                 .actual = context.size(),
                 .expected = plan.request.context.size()};
  }
  for (std::size_t group = 0; group < contents_.tables.size(); ++group) {
    KVANT_TRY(contents_.tables[group].reserve(plan.group_pages_for(group, context)));
  }
  capacity_ = context;
  return ok();
}

Status Sequence::migrate_from(const Sequence& source) {
  KVANT_TRY(source.check_readable());
  if (capacity_ <= source.capacity_) {
    return Error{.code = ErrorCode::kMigrationContext,
                 .actual = capacity_.size(),
                 .expected = source.capacity_.size()};
  }
  if (layout() != source.layout()) {
    return first_difference(ErrorCode::kMigrationPlanMismatch, layout(), source.layout());
  }
  KVANT_TRY(reserve_for(source.contents_));
  return import(source.contents_, source.pool_->geometry());
}

Status Sequence::migrate_from(const Sequence& source, const Snapshot& snapshot) {
  KVANT_TRY(source.check_readable());
  if (snapshot.layout() != source.layout()) {
    return first_difference(ErrorCode::kMigrationSnapshotPlanMismatch, source.layout(),
                            snapshot.layout());
  }
  if (snapshot.position() > source.position()) {
    return Error{.code = ErrorCode::kMigrationSnapshotPosition,
                 .actual = snapshot.position().index(),
                 .expected = source.position().index()};
  }
  return migrate_from(source);
}

}  // namespace kvant::state
