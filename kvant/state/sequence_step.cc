// The step protocol: prepare, commit, poison, rollback, reset.
#include <algorithm>
#include <new>
#include <utility>

#include "kvant/state/page_copy.h"
#include "kvant/state/sequence.h"

namespace kvant::state {

Status Sequence::prepare(Tokens n) {
  if (poisoned_) return Error{.code = ErrorCode::kPoisoned};
  if (step_open()) return Error{.code = ErrorCode::kStepOpen};
  if (n.value() < 1) return Error{.code = ErrorCode::kEmptyPrefill};
  const Tokens room = capacity_ - (position() - Position(0));
  if (room == Tokens(0)) {
    return Error{.code = ErrorCode::kContextExhausted,
                 .actual = position().index(),
                 .expected = capacity_.size()};
  }
  if (n > room) {
    return Error{.code = ErrorCode::kContextBound,
                 .actual = position().index() + n.size(),
                 .expected = capacity_.size()};
  }
  KVANT_TRY(count_needs(n));
  Status status = pool_->take(needs_, taken_);
  if (status) status = copy_shared(n);
  if (status) publish(n);
  taken_.clear();  // after a failure: back to the pool
  return status;
}

// Fills needs_ with the objects that a step of n positions takes, and sizes taken_ for them.
Status Sequence::count_needs(Tokens n) {
  std::int64_t sum = 0;
  for (std::size_t group = 0; group < contents_.tables.size(); ++group) {
    PageTable& table = contents_.tables[group];
    const std::int64_t missing = table.n_missing_pages(n);
    const PoolRef* open = table.open_page();
    const bool copy = open != nullptr && !open->is_unique();
    const auto held = static_cast<std::int64_t>(table.pages().size()) + table.n_spare();
    KVANT_TRY(table.reserve(Pages(held + missing)));  // there is room already up to max_step
    needs_[group] = missing + (copy ? 1 : 0);
    sum += needs_[group];
  }
  if (contents_.block) {
    const std::int64_t copy = contents_.block.is_unique() ? 0 : 1;
    needs_[pool_->geometry().block_class()] = copy;
    sum += copy;
  }
  try {
    taken_.resize(static_cast<std::size_t>(sum));
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory,
                 .actual = static_cast<std::uint64_t>(sum) * sizeof(PoolRef)};
  }
  return ok();
}

// Copies what the step will write and somebody else refers to, into the objects taken.
Status Sequence::copy_shared(Tokens n) {
  tensor::Device& device = pool_->device();
  const Geometry& geometry = pool_->geometry();
  std::size_t next = 0;
  for (std::size_t group = 0; group < contents_.tables.size(); ++group) {
    const PageTable& table = contents_.tables[group];
    if (needs_[group] > table.n_missing_pages(n)) {
      KVANT_TRY(copy_page(device, geometry, {.group = group, .table = &table},
                          table.pages().size() - 1, taken_[next].data()));
    }
    next += static_cast<std::size_t>(needs_[group]);
  }
  std::byte* block = contents_.block ? contents_.block.data() : nullptr;
  if (next < taken_.size()) {
    KVANT_TRY(copy_live_block(device, contents_.block_age(), {&geometry, block},
                              {&geometry, taken_[next].data()}));
    block = taken_[next].data();
  }
  return copy_version(block, contents_.age, contents_.age + n.value());
}

// Gives the version that a step leaves the value of the one before it.
Status Sequence::copy_version(std::byte* block, std::int64_t from_age, std::int64_t to_age) {
  if (contents_.versions.empty()) return ok();
  const auto n_versions = static_cast<std::int64_t>(contents_.versions.size());
  if (from_age % n_versions == to_age % n_versions) return ok();
  // What this place held cannot be returned to any more, even if a copy fails.
  contents_.versions[static_cast<std::size_t>(to_age % n_versions)] = -1;
  for (const Placed& placed : pool_->geometry().components) {
    if (placed.spec.discipline != Discipline::kRecurrent) continue;
    std::byte* versions = block + placed.offset.value();
    const Bytes from = placed.version_bytes * (from_age % n_versions);
    const Bytes to = placed.version_bytes * (to_age % n_versions);
    KVANT_TRY(
        pool_->device().copy(versions + to.value(), versions + from.value(), placed.version_bytes));
  }
  return ok();
}

void Sequence::publish(Tokens n) noexcept {
  std::size_t next = 0;
  const std::int64_t delta = contents_.runs.back().delta;
  for (std::size_t group = 0; group < contents_.tables.size(); ++group) {
    PageTable& table = contents_.tables[group];
    std::int64_t n_new = table.n_missing_pages(n);
    if (needs_[group] > n_new) table.replace_open(std::move(taken_[next++]));
    for (; n_new > 0; --n_new) table.add_spare(std::move(taken_[next++]));
    table.advance(n, delta);
  }
  if (next < taken_.size()) contents_.block = std::move(taken_[next]);
  step_ = n;
  all_versions_ = false;
  refresh_rings();
}

Status Sequence::commit(Position start, Tokens n) noexcept {
  if (poisoned_) return Error{.code = ErrorCode::kPoisoned};
  if (n.value() < 1) return Error{.code = ErrorCode::kEmptyPrefill};
  if (start != position()) {
    return Error{.code = ErrorCode::kStepOutOfOrder,
                 .actual = start.index(),
                 .expected = position().index()};
  }
  if (n != step_) {
    return Error{.code = ErrorCode::kStepNotPrepared, .actual = n.size(), .expected = step_.size()};
  }
  const auto n_kept = static_cast<std::int64_t>(contents_.versions.size());
  for (std::int64_t back = 0; back < std::min(n.value(), n_kept); ++back) {
    const std::int64_t age = contents_.age + n.value() - back;
    contents_.versions[static_cast<std::size_t>(age % n_kept)] =
        back == 0 || all_versions_ ? age : -1;
  }
  contents_.position += n;
  contents_.age += n.value();
  contents_.depth = std::min(contents_.depth + n, pool_->geometry().max_rollback);
  step_ = Tokens(0);
  release_windows();
  refresh_rings();
  return ok();
}

// Lets go of pages that no query can see any more, not even after a rollback.
void Sequence::release_windows() noexcept {
  const Geometry& geometry = pool_->geometry();
  for (std::size_t group = 0; group < contents_.tables.size(); ++group) {
    const Tokens window = geometry.groups[group].window;
    if (window == Tokens(0)) continue;
    const std::int64_t low =
        position().value() - geometry.max_rollback.value() - window.value() + 1;
    contents_.tables[group].release_before(Position(std::max<std::int64_t>(low, 0)));
  }
}

void Sequence::poison() noexcept {
  if (!step_open()) return;
  step_ = Tokens(0);
  poisoned_ = true;
}

Tokens Sequence::rollback_depth() const { return contents_.block_age().depth; }

bool Sequence::can_roll_back(Tokens n) const {
  if (n.value() < 0 || n > contents_.depth) return false;
  if (contents_.versions.empty()) return true;
  const std::int64_t age = contents_.age - n.value();
  return contents_.versions[static_cast<std::size_t>(age) % contents_.versions.size()] == age;
}

Status Sequence::rollback(Tokens n) noexcept {
  KVANT_TRY(check_readable());
  if (!can_roll_back(n)) {
    return Error{
        .code = ErrorCode::kRollbackBound, .actual = n.size(), .expected = rollback_depth().size()};
  }
  for (PageTable& table : contents_.tables) table.retreat(n);
  contents_.position = Position(position().value() - n.value());
  contents_.age -= n.value();
  contents_.depth -= n;
  refresh_rings();
  return ok();
}

Status Sequence::reset(KeptPages kept) noexcept {
  step_ = Tokens(0);
  poisoned_ = false;
  if (kept == KeptPages::kNone) {
    contents_.clear(pool_->initial_block());
  } else {
    for (PageTable& table : contents_.tables) table.clear_keeping_pages();
    contents_.forget(reset_block());
  }
  refresh_rings();
  return ok();
}

// The own block with initial values, or the shared one if it has no own.
PoolRef Sequence::reset_block() noexcept {
  PoolRef initial = pool_->initial_block();
  if (!contents_.block || !contents_.block.is_unique()) return initial;
  const Geometry& geometry = pool_->geometry();
  const Status done = copy_live_block(pool_->device(), {}, {&geometry, initial.data()},
                                      {&geometry, contents_.block.data()});
  if (!done) return initial;
  return std::move(contents_.block);
}

void prepare_all(std::span<Sequence* const> sequences, std::span<const Tokens> counts,
                 std::span<Status> statuses) {
  KVANT_CHECK(sequences.size() == counts.size() && sequences.size() == statuses.size());
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    statuses[i] = sequences[i]->prepare(counts[i]);
  }
}

}  // namespace kvant::state
