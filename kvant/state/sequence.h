// A sequence: what one stream of tokens has left behind, and the protocol by which a model adds to
// it.
//
//            prepare(n)                       commit(start, n)
//   idle -------------------> step open -----------------------> idle, position + n
//    ^  everything that can      |  the model writes rows and
//    |  fail happens here        |  blocks in place
//    |                           | poison(): writing failed
//    +------ reset, restore -- poisoned
//
// The step. prepare takes pages from the pool, and copies what this sequence is about to write and
// somebody else refers to: the open page of each group, the block. It either does all of it or
// changes nothing. Then the model writes: rows [position, position + n) of every append component
// through rows(), recurrent blocks in place through recurrent(). The caller waits for
// Device::synchronize once for the whole batch and then calls commit for each sequence, which only
// moves the position; if a write or synchronize failed it calls poison.
//
// Why writing in place is safe. Between prepare and commit nothing that is written is shared: rows
// go behind the last visible row of pages with one reference, and the block has one reference. No
// snapshot or fork can see half a step, and none can be taken while a step is open. After poison
// the block holds garbage and the sequence refuses to show it; reset refers to the block of initial
// values again, restore to the snapshot's.
//
// Invariants
//   1. position() <= capacity(); rows [0, position / ratio) of a component are readable.
//   2. A failing call changes nothing that a caller can observe.
//   3. With `max_step` at least n, prepare(n) and commit take nothing from the heap.
//
// Threads: one thread at a time a sequence; different sequences of one pool from any threads.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/state/page_table.h"
#include "kvant/state/pool.h"
#include "kvant/state/snapshot.h"
#include "kvant/tensor/paged_rows.h"

namespace kvant::state {

class Sequence {
 public:
  // An empty sequence for up to `context` positions. Takes page tables from the heap and nothing
  // from the pool.
  // Errors: kEmptyContext; kContextBound{actual: context, expected: the plan's}; kUnsupported{
  // layer, kind} for a ring or a windowed component, which this version can only plan;
  // kOutOfMemory.
  static Result<Sequence> create(std::shared_ptr<PagePool> pool, Tokens context);

  Sequence(Sequence&&) noexcept = default;
  Sequence& operator=(Sequence&& other) noexcept;
  ~Sequence() = default;

  Position position() const { return position_; }
  Tokens capacity() const { return capacity_; }
  bool poisoned() const { return poisoned_; }
  bool step_open() const { return step_.value() > 0; }
  const Layout& layout() const { return pool_->plan().layout; }
  const std::shared_ptr<PagePool>& pool() const { return pool_; }
  // Bytes of the pages and the block this sequence refers to, shared ones included.
  Bytes resident_bytes() const;
  // Heap bytes of the page tables; the plan's table_bytes count them.
  Bytes table_bytes() const;

  // Opens a step of n positions.
  // Errors, in this order: kPoisoned; kStepOpen; kEmptyPrefill for n < 1; kContextExhausted{
  // expected: capacity} when full; kContextBound{actual: end, expected: capacity};
  // kPoolExhausted; the device's. The sequence is then as it was before the call.
  // Cost: O(n / page_positions), and a copy of what is shared and about to be written.
  Status prepare(Tokens n);

  // The rows of one component, those of the open step included. Concatenating the extents gives
  // row 0, 1, ...; only rows of the open step may be written, and must be before commit.
  // Valid until commit, poison or destruction.
  // Errors: kStepNotPrepared when no step is open; kComponentMissing{layer, kind}.
  Result<tensor::PagedRows> rows(LayerIndex layer, ComponentKind kind) const;

  // The block of a recurrent component in the open step: [n_rows, width] f32, holding what the last
  // step left; the model overwrites it.
  // Errors: as rows.
  Result<std::span<float>> recurrent(LayerIndex layer, ComponentKind kind);

  // The same for reading while no step is open: committed rows only. Valid until the next call that
  // is not const.
  // Errors: kPoisoned; kStepOpen; kComponentMissing{layer, kind}.
  Result<tensor::PagedRows> read_rows(LayerIndex layer, ComponentKind kind) const;
  Result<std::span<const float>> read_recurrent(LayerIndex layer, ComponentKind kind) const;

  // Publishes the open step. Requires: Device::synchronize succeeded after the last write.
  // Errors, each changing nothing: kPoisoned; kEmptyPrefill for n < 1; kStepOutOfOrder{actual:
  // start, expected: position()}; kStepNotPrepared{actual: n, expected: positions prepared}.
  Status commit(Position start, Tokens n) noexcept;

  // Gives up the open step: its rows vanish and the sequence refuses everything but reset and
  // restore. Without an open step it does nothing.
  void poison() noexcept;

  // Empty again, recurrent blocks at their initial values; ends an open step, clears poison. Pages
  // that nobody else refers to go back to the pool. Cannot fail for append and recurrent
  // components.
  Status reset();

  // Errors: kPoisoned; kStepOpen; kOutOfMemory. Cost: one reference a page.
  Result<Snapshot> snapshot() const;

  // Makes this sequence remember exactly what the snapshot does; ends an open step, clears poison.
  // Takes no memory. The source of the snapshot need not exist any more.
  // Errors, each before anything changes: kSnapshotPlanMismatch for another layout; kContextBound{
  // actual: the snapshot's position, expected: capacity}; kUnsupported for a snapshot of another
  // pool.
  Status restore(const Snapshot& snapshot);

  // A second sequence of equal capacity that remembers the same; the two share pages until they
  // write. Errors: as snapshot.
  Result<Sequence> fork() const;

 private:
  Sequence() = default;
  enum class Place { kPage, kBlock };
  const Placed* find(LayerIndex layer, ComponentKind kind, Place place) const;
  tensor::PagedRows view(const Placed& placed) const;
  std::span<float> block_floats(const Placed& placed) const;
  void forget() noexcept;
  Status count_needs(Position end);
  std::int64_t n_new_pages(std::size_t group, Position end) const;
  Status check_readable() const;
  Status copy_shared(Position end);
  Status copy_open_rows(std::size_t group, std::byte* to) const;
  void publish(Position end) noexcept;

  std::shared_ptr<PagePool> pool_;  // first, so that it goes after the references
  Tokens capacity_{0};
  Position position_{0};
  Tokens step_{0};  // positions of the open step; 0: none is open
  bool poisoned_ = false;
  std::vector<PageTable> tables_;  // [n_groups]
  PoolRef block_;                  // empty when the layout has no recurrent component

  // Scratch of prepare, kept so that a step takes nothing from the heap.
  std::vector<std::int64_t> needs_;  // [n_classes]
  std::vector<PoolRef> taken_;
};

// Opens a step for each sequence of a batch; one that fails leaves the others' steps open.
// Requires: spans of equal length; statuses receives what each prepare returned.
void prepare_all(std::span<Sequence* const> sequences, std::span<const Tokens> counts,
                 std::span<Status> statuses);

}  // namespace kvant::state
