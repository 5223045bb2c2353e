// The pool: pages and blocks of all sequences of one plan, reference counted, within a byte budget.
//
// One reservation of address space is cut into a range for each class of objects (the pages of a
// group, the blocks); each range could hold the whole budget, so classes share the budget without
// fragmenting each other:
//
//   | page class 0: slot 0, 1, 2, ...          | page class 1 ...       | block class ...   |
//     ^ fresh slots cost nothing until written   freed slots keep their memory for the next taker
//
// An object that nobody refers to goes to its class's free list, still backed by memory: the next
// taker pays no page fault. When used and kept memory together would pass the budget, kept memory
// of other classes is given back to the device first.
//
// Invariants
//   1. used <= budget and resident <= budget; used = bytes of all referenced objects.
//   2. take gives all objects or none.
//   3. Bytes of a taken object are unspecified (zero, or what an earlier owner left): page tables
//      expose only rows that a step has written.
//   4. Who holds the only reference may write; nobody else may.
//
// Rejected: one heap of mixed sizes (fragments, and a full page could fail although the budget has
// room), a lock-free list (taking happens once in page_positions tokens).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/state/plan.h"
#include "kvant/tensor/device.h"

namespace kvant::state {

class PagePool;

// When memory is really taken from the device.
enum class Commitment : std::uint8_t {
  kLazy,   // object by object, when first written
  kEager,  // all that the plan counts, at once: later steps never wait for it, nor find it missing
};

// A counted reference to one page or block; copying shares it, the last one gone frees it.
// Threads: as shared_ptr: one reference is used by one thread at a time, any number of references
// to one object by any threads. The pool must outlive it (sequences and snapshots see to that).
class PoolRef {
 public:
  PoolRef() = default;
  PoolRef(const PoolRef& other) noexcept;
  PoolRef(PoolRef&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), class_(other.class_), slot_(other.slot_) {}
  PoolRef& operator=(PoolRef other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(class_, other.class_);
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~PoolRef() { drop(); }

  explicit operator bool() const { return pool_ != nullptr; }
  std::byte* data() const;
  Bytes bytes() const;
  // No other reference exists. True stays true while this is the only one; false may be outdated.
  bool is_unique() const;
  friend bool operator==(const PoolRef&, const PoolRef&) = default;

 private:
  friend class PagePool;
  PoolRef(PagePool* pool, std::uint32_t object_class, std::uint32_t slot)
      : pool_(pool), class_(object_class), slot_(slot) {}
  void drop() noexcept;

  PagePool* pool_ = nullptr;
  std::uint32_t class_ = 0;
  std::uint32_t slot_ = 0;
};

// Threads: all public functions from any thread.
class PagePool {
 public:
  // Reserves the plan's address space and makes the block of initial values. The device must
  // outlive the pool.
  // Errors: kOutOfMemory, kInitialiseFailed (the device's), kAccounting{actual, expected} when the
  // device gave another number of bytes than planned, or when eager objects do not add up to the
  // planned bytes.
  static Result<std::shared_ptr<PagePool>> create(tensor::Device& device, const Plan& plan,
                                                  Commitment commitment = Commitment::kLazy);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  const Plan& plan() const { return plan_; }
  const Geometry& geometry() const { return plan_.geometry; }
  tensor::Device& device() const { return device_; }

  Bytes budget() const { return plan_.pool_bytes; }
  Bytes used() const;      // referenced objects; the block of initial values always counts
  Bytes resident() const;  // referenced objects and free ones whose memory is kept
  Bytes reserved() const { return memory_.bytes(); }  // address space

  // Gives memory that free objects keep back to the device. Errors: the device's; memory not yet
  // given back is kept.
  Status trim();

  // Takes counts[c] objects of each class c into `out` in class order.
  // Requires: counts.size() == geometry().n_classes(), out.size() == the sum of counts.
  // Errors: kPoolExhausted{actual: bytes needed, expected: bytes left}; the device's when kept
  // memory could not be given back. `out` is then untouched and nothing is taken.
  // Cost: one lock; nothing from the heap.
  Status take(std::span<const std::int64_t> counts, std::span<PoolRef> out);

  // The block that holds every recurrent component's initial value; empty without such components.
  PoolRef initial_block() const { return initial_block_; }

 private:
  friend class PoolRef;
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

  // Slots of one class. A slot is referenced, kept (free, memory behind it), bare (free, memory
  // given back) or fresh (at or above next_fresh, never used).
  struct ClassState {
    Bytes object_bytes{0};
    std::byte* base = nullptr;
    std::uint32_t* counts = nullptr;  // [n_slots] references
    std::uint32_t* next = nullptr;    // [n_slots] links of the free lists
    std::int64_t n_slots = 0;
    std::uint32_t kept_head = kNone;
    std::int64_t n_kept = 0;
    std::uint32_t bare_head = kNone;
    std::uint32_t next_fresh = 0;
  };

  PagePool(tensor::Device& device, const Plan& plan) : device_(device), plan_(plan) {}
  Status lay_out();
  Status make_initial_block();
  Status commit_all();
  // Gives one kept slot of the class back. Requires: the lock, n_kept > 0.
  Status release_one(ClassState& state);
  std::uint32_t pop_slot(ClassState& state);
  void give_back(std::uint32_t object_class, std::uint32_t slot) noexcept;

  tensor::Device& device_;
  const Plan plan_;
  tensor::DeviceMemory memory_;
  tensor::DeviceMemory slot_memory_;  // counts and links, on the host, lazily committed like pages
  mutable std::mutex mutex_;          // guards classes_' lists, used_ and resident_
  std::vector<ClassState> classes_;
  Bytes used_{0};
  Bytes resident_{0};
  PoolRef initial_block_;
};

}  // namespace kvant::state
