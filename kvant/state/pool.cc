#include "kvant/state/pool.h"

#include <algorithm>
#include <atomic>
#include <new>

namespace kvant::state {
namespace {

// Reference counts lie in lazily committed memory, so they are plain words used atomically.
std::atomic_ref<std::uint32_t> atomic(std::uint32_t& count) {
  return std::atomic_ref<std::uint32_t>(count);
}

}  // namespace

PoolRef::PoolRef(const PoolRef& other) noexcept
    : pool_(other.pool_), class_(other.class_), slot_(other.slot_) {
  if (pool_ != nullptr) {
    atomic(pool_->classes_[class_].counts[slot_]).fetch_add(1, std::memory_order_relaxed);
  }
}

std::byte* PoolRef::data() const {
  const PagePool::ClassState& state = pool_->classes_[class_];
  return state.base + state.object_bytes.value() * slot_;
}

Bytes PoolRef::bytes() const {
  return pool_ == nullptr ? Bytes(0) : pool_->classes_[class_].object_bytes;
}

bool PoolRef::is_unique() const {
  // Acquire: what other holders read happened before they let go, and before we write.
  return atomic(pool_->classes_[class_].counts[slot_]).load(std::memory_order_acquire) == 1;
}

void PoolRef::drop() noexcept {
  if (pool_ == nullptr) return;
  std::uint32_t& count = pool_->classes_[class_].counts[slot_];
  if (atomic(count).fetch_sub(1, std::memory_order_acq_rel) == 1) pool_->give_back(class_, slot_);
  pool_ = nullptr;
}

Result<std::shared_ptr<PagePool>> PagePool::create(tensor::Device& device, const Plan& plan,
                                                   Commitment commitment) {
  try {
    std::shared_ptr<PagePool> pool(new PagePool(device, plan));
    KVANT_TRY(pool->lay_out());
    KVANT_TRY(pool->make_initial_block());
    if (commitment == Commitment::kEager) KVANT_TRY(pool->commit_all());
    return pool;
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

PagePool::~PagePool() = default;

Status PagePool::lay_out() {
  memory_ = KVANT_TRY(device_.reserve(plan_.address_bytes));
  if (memory_.bytes() != plan_.address_bytes) {
    return Error{.code = ErrorCode::kAccounting,
                 .actual = static_cast<std::uint64_t>(memory_.bytes().value()),
                 .expected = static_cast<std::uint64_t>(plan_.address_bytes.value())};
  }
  std::int64_t n_slots = 0;
  for (std::size_t c = 0; c < geometry().n_classes(); ++c) n_slots += plan_.n_slots(c);
  constexpr auto kWord = static_cast<std::int64_t>(sizeof(std::uint32_t));
  slot_memory_ = KVANT_TRY(tensor::host_device().reserve(Bytes(2 * n_slots * kWord)));

  auto* words = reinterpret_cast<std::uint32_t*>(slot_memory_.data());
  std::byte* base = memory_.data();
  classes_.reserve(geometry().n_classes());
  for (std::size_t c = 0; c < geometry().n_classes(); ++c) {
    ClassState state{.object_bytes = geometry().class_bytes(c),
                     .base = base,
                     .counts = words,
                     .next = words + plan_.n_slots(c),
                     .n_slots = plan_.n_slots(c)};
    base += state.object_bytes.value() * state.n_slots;
    words += 2 * state.n_slots;
    classes_.push_back(state);
  }
  return ok();
}

Status PagePool::make_initial_block() {
  if (geometry().block_bytes == Bytes(0)) return ok();
  std::vector<std::int64_t> counts(geometry().n_classes(), 0);
  counts[geometry().block_class()] = 1;
  PoolRef block;
  KVANT_TRY(take(counts, {&block, 1}));
  for (const Placed& placed : geometry().components) {
    if (placed.group >= 0) continue;
    // Rings start as zeros in every element type; the padding behind them takes a last half float.
    constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
    const std::int64_t n_floats = (placed.bytes.value() + kFloat - 1) / kFloat;
    KVANT_TRY(
        device_.fill(block.data() + placed.offset.value(), n_floats, placed.spec.initial_value));
  }
  KVANT_TRY(device_.synchronize());
  initial_block_ = std::move(block);
  return ok();
}

// Takes and writes every object that is planned; given back, they keep their memory.
Status PagePool::commit_all() {
  std::vector<std::int64_t> counts;
  std::size_t sum = 0;
  for (std::size_t c = 0; c < geometry().n_classes(); ++c) {
    const bool has_initial = initial_block_ && c == geometry().block_class();
    counts.push_back(plan_.n_planned(c) - (has_initial ? 1 : 0));
    sum += static_cast<std::size_t>(counts.back());
  }
  std::vector<PoolRef> all(sum);
  KVANT_TRY(take(counts, all));
  for (const PoolRef& object : all) {
    constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));  // objects are whole lines
    KVANT_TRY(device_.fill(object.data(), object.bytes().value() / kFloat, 0.0F));
  }
  KVANT_TRY(device_.synchronize());
  if (used() != budget()) {
    return Error{.code = ErrorCode::kAccounting,
                 .actual = static_cast<std::uint64_t>(used().value()),
                 .expected = static_cast<std::uint64_t>(budget().value())};
  }
  return ok();
}

Bytes PagePool::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

Bytes PagePool::resident() const {
  const std::lock_guard lock(mutex_);
  return resident_;
}

Status PagePool::trim() {
  const std::lock_guard lock(mutex_);
  for (ClassState& state : classes_) {
    while (state.n_kept > 0) KVANT_TRY(release_one(state));
  }
  return ok();
}

Status PagePool::release_one(ClassState& state) {
  const std::uint32_t slot = state.kept_head;
  std::byte* data = state.base + state.object_bytes.value() * slot;
  KVANT_TRY(device_.release(data, state.object_bytes));
  state.kept_head = state.next[slot];
  --state.n_kept;
  state.next[slot] = state.bare_head;
  state.bare_head = slot;
  resident_ -= state.object_bytes;
  return ok();
}

// The slot that costs least: one with memory, one without, one never used.
std::uint32_t PagePool::pop_slot(ClassState& state) {
  if (state.kept_head != kNone) {
    --state.n_kept;
    return std::exchange(state.kept_head, state.next[state.kept_head]);
  }
  resident_ += state.object_bytes;
  if (state.bare_head != kNone) return std::exchange(state.bare_head, state.next[state.bare_head]);
  KVANT_CHECK(state.next_fresh < state.n_slots);  // used_ <= budget leaves a slot
  return state.next_fresh++;
}

Status PagePool::take(std::span<const std::int64_t> counts, std::span<PoolRef> out) {
  KVANT_CHECK(counts.size() == classes_.size());
  const std::lock_guard lock(mutex_);
  Bytes needed{0};
  Bytes new_memory{0};  // beyond what free objects keep
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    needed += classes_[c].object_bytes * counts[c];
    new_memory +=
        classes_[c].object_bytes * std::max<std::int64_t>(counts[c] - classes_[c].n_kept, 0);
  }
  const Bytes left = budget() - used_;
  if (needed > left) {
    return Error{.code = ErrorCode::kPoolExhausted,
                 .actual = static_cast<std::uint64_t>(needed.value()),
                 .expected = static_cast<std::uint64_t>(left.value())};
  }
  for (std::size_t c = 0; c < classes_.size() && resident_ + new_memory > budget(); ++c) {
    while (classes_[c].n_kept > counts[c] && resident_ + new_memory > budget()) {
      KVANT_TRY(release_one(classes_[c]));
    }
  }
  auto* next = out.data();
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    for (std::int64_t i = 0; i < counts[c]; ++i) {
      const std::uint32_t slot = pop_slot(classes_[c]);
      atomic(classes_[c].counts[slot]).store(1, std::memory_order_relaxed);
      *next++ = PoolRef(this, static_cast<std::uint32_t>(c), slot);
    }
  }
  used_ += needed;
  return ok();
}

void PagePool::give_back(std::uint32_t object_class, std::uint32_t slot) noexcept {
  const std::lock_guard lock(mutex_);
  ClassState& state = classes_[object_class];
  state.next[slot] = state.kept_head;
  state.kept_head = slot;
  ++state.n_kept;
  used_ -= state.object_bytes;
}

}  // namespace kvant::state
