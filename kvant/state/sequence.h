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
// somebody else refers to: the open page of each group, the live part of the block. It either does
// all of it or changes nothing. Then the model writes: rows [position, position + n) of every
// append component through rows(), the last of them into rings through ring_slots(), recurrent
// blocks through recurrent(). The caller waits for Device::synchronize once for the whole batch and
// then calls commit for each sequence, which only moves the position; if a write or synchronize
// failed it calls poison.
//
// Why writing in place is safe. Between prepare and commit nothing that is written is shared: rows
// go behind the last visible row of pages with one reference, and the block has one reference. No
// snapshot or fork can see half a step, and none can be taken while a step is open. After poison
// the block holds garbage and the sequence refuses to show it; reset refers to the block of initial
// values again, restore to the snapshot's.
//
// Taking positions back. With a plan for max_rollback K, rings hold K rows more than their window
// and recurrent components K versions more than one, so the last K positions can be taken back
// exactly and without a copy. Of a step of several positions a rollback reaches the inner ones if
// the model wrote their versions too (recurrent_version, versions_written); without recurrent
// components it always does.
//
// Shifting. shift drops positions [keep, keep + n) and moves the later ones down. Rows stay where
// they are; their extents carry the difference between the position that a key was rotated for and
// the one it has now, and queries are rotated by it instead (position_runs).
//
// Invariants
//   1. position() <= capacity(); rows [0, position / ratio) of an append component are readable.
//   2. A failing call changes nothing that a caller can observe.
//   3. With `max_step` at least n, prepare(n) and commit take nothing from the heap.
//
// Threads: one thread at a time a sequence; different sequences of one pool from any threads.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/state/contents.h"
#include "kvant/state/page_table.h"
#include "kvant/state/pool.h"
#include "kvant/state/snapshot.h"
#include "kvant/tensor/paged_rows.h"

namespace kvant::state {

// What a reset does with the pages that nobody else refers to.
enum class KeptPages : std::uint8_t {
  kNone,  // they go back to the pool
  // They stay with the sequence, whose next steps take nothing from the pool up to as many
  // positions; pages that a window has released before are not among them.
  kAll,
};

// Positions [keep, keep + n) are dropped.
struct ShiftRequest {
  Position keep{0};
  Tokens n{0};
};

class Sequence {
 public:
  // An empty sequence for up to `context` positions. Takes page tables from the heap and nothing
  // from the pool.
  // Errors: kEmptyContext; kContextBound{actual: context, expected: the plan's}; kOutOfMemory.
  static Result<Sequence> create(std::shared_ptr<PagePool> pool, Tokens context);

  Sequence(Sequence&&) noexcept = default;
  Sequence& operator=(Sequence&& other) noexcept;
  ~Sequence() = default;

  Position position() const { return contents_.position; }
  Tokens capacity() const { return capacity_; }
  bool poisoned() const { return poisoned_; }
  bool step_open() const { return step_.value() > 0; }
  Lineage lineage() const { return contents_.lineage; }
  const Layout& layout() const { return pool_->plan().layout; }
  const std::shared_ptr<PagePool>& pool() const { return pool_; }
  // Bytes of the pages and the block this sequence refers to, shared and spare ones included.
  Bytes resident_bytes() const;
  // Heap bytes of the page tables and lists; the plan's table_bytes count them.
  Bytes table_bytes() const;
  // What `create` takes from the heap for a sequence of the plan's context.
  static Bytes table_bytes_for(const Plan& plan);

  // Opens a step of n positions.
  // Errors, in this order: kPoisoned; kStepOpen; kEmptyPrefill for n < 1; kContextExhausted{
  // expected: capacity} when full; kContextBound{actual: end, expected: capacity};
  // kPoolExhausted; the device's. The sequence is then as it was before the call; after an error of
  // the device fewer positions may be taken back.
  // Cost: O(n / page_positions), and a copy of what is live, shared and about to be written.
  Status prepare(Tokens n);

  // The rows of one component that the open step's queries may read. Append: those of the step
  // included; only these may be written, and must be before commit. Ring: the live rows before the
  // step, in at most two extents of ascending position; the step's own go to ring_slots.
  // Concatenating the extents gives rows first_row, first_row + 1, ...
  // Valid until commit, poison or destruction.
  // Errors: kStepNotPrepared when no step is open; kComponentMissing{layer, kind}.
  Result<tensor::PagedRows> rows(LayerIndex layer, ComponentKind kind) const;

  // Where the open step's last positions go in a ring, at most two extents: first_row is the first
  // position that is kept. Written after every query of the step has read rows(), before commit.
  // Errors: as rows.
  Result<tensor::PagedRows> ring_slots(LayerIndex layer, ComponentKind kind) const;

  // A recurrent component in the open step: [n_rows, width] f32, holding what the last step left;
  // the model overwrites it with what the step leaves.
  // Errors: as rows.
  Result<std::span<float>> recurrent(LayerIndex layer, ComponentKind kind);

  // The version of a recurrent component after the first `done` positions of the open step, for the
  // max_rollback + 1 last of them; its numbers are unspecified until written. The n-th of n is
  // recurrent(). A model that writes them all says so with versions_written.
  // Errors: kInvalidArgument{actual: done, expected: the step's positions} for another; as rows.
  Result<std::span<float>> recurrent_version(LayerIndex layer, ComponentKind kind, Tokens done);
  // The number of versions that the open step has room for: min(n, max_rollback + 1).
  Tokens n_versions() const;
  void versions_written() noexcept { all_versions_ = true; }

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

  // Takes the last n positions back, as if they had never been: the sequence goes on with the bits
  // of one that never saw them. Takes no memory.
  // Errors, each changing nothing: kPoisoned; kStepOpen; kRollbackBound{actual: n, expected:
  // rollback_depth()} for n that can_roll_back denies.
  Status rollback(Tokens n) noexcept;
  // The most positions that can be taken back now: at most the plan's max_rollback, none before
  // the last shift, import or start.
  Tokens rollback_depth() const;
  // False also for positions within a step whose versions the model did not write.
  bool can_roll_back(Tokens n) const;

  // Empty again, recurrent blocks at their initial values; ends an open step, clears poison and
  // makes the lineage cold. Errors: none that a device of today can cause.
  Status reset(KeptPages kept = KeptPages::kNone) noexcept;

  // Errors: kPoisoned; kStepOpen; kOutOfMemory. Cost: one reference a page.
  Result<Snapshot> snapshot() const;

  // Makes this sequence remember exactly what the snapshot does; ends an open step, clears poison.
  // The source of the snapshot need not exist any more. A snapshot of this pool takes no memory;
  // one of another pool is copied into pages of this one.
  // Errors, each before anything changes: kSnapshotPlanMismatch for another layout; kContextBound{
  // actual: the snapshot's position, expected: capacity}; of another pool also kPoolExhausted and
  // the device's. What this sequence holds stays until the copy is complete; only when the pool has
  // no room for both is it given up first, and an error of the device then leaves the sequence
  // poisoned.
  Status restore(const Snapshot& snapshot);

  // A second sequence of equal capacity that remembers the same; the two share pages until they
  // write. Errors: as snapshot.
  Result<Sequence> fork() const;

  // Raises the capacity within the plan's context. Copies nothing.
  // Errors, each changing nothing: kMigrationContext{actual: context, expected: capacity} when it
  // is not larger; kContextBound{actual: context, expected: the plan's}; kOutOfMemory.
  Status grow(Tokens context);

  // Takes over what a smaller sequence, usually of another pool, remembers, in pages of this pool.
  // The source is untouched; this sequence's poison is cleared.
  // Errors, each changing nothing: kPoisoned or kStepOpen of the source; kMigrationContext{actual:
  // capacity, expected: the source's} unless larger; kMigrationPlanMismatch{layer, kind of the
  // first component that differs}; kPoolExhausted; the device's.
  Status migrate_from(const Sequence& source);
  // The same, and checks that a snapshot of the source will fit what results.
  // Errors: kMigrationSnapshotPlanMismatch; kMigrationSnapshotPosition{actual: the snapshot's,
  // expected: the source's} for one ahead of the source; then those above.
  Status migrate_from(const Sequence& source, const Snapshot& snapshot);

  // Whether `shift` would be done, without doing it. Errors: those of shift but for memory.
  Status can_shift(const ShiftRequest& request) const;
  // Drops positions [keep, keep + n); later ones move down by n. No row is copied, except when
  // holes make a page: then the rows of the shortest run of pages that closes one are. Recurrent
  // components stay as they are. The lineage becomes derived and nothing can be rolled back.
  // Errors, each changing nothing: kPoisoned; kStepOpen; kInvalidArgument for keep < 0 or n < 1;
  // kShiftRange{actual: keep + n, expected: position}; kShiftNotPlanned; kShiftRefused{layer, kind}
  // for memory that is bound to positions; kShiftRowsReleased{layer, kind} when a window would need
  // rows that are gone; kLimitExceeded when 2^31 positions have gone by since keys were last turned
  // (turn_keys.h); kShiftPieces; kPoolExhausted; kOutOfMemory; the device's.
  // Cost: O(pages).
  Status shift(const ShiftRequest& request);

  // How stored keys are rotated: ascending, never empty. New rows belong to the last run, so a
  // model rotates the key of position p for p - position_runs().back().delta, and a query at p for
  // p - d where it meets an extent of delta d.
  std::span<const PositionRun> position_runs() const { return contents_.runs; }

  // A caller says that what it did makes this state depend on more than model and tokens.
  void mark_derived() noexcept { contents_.lineage = Lineage::kDerived; }

 private:
  friend class KeyTurner;

  // Extents of rings of one shape.
  struct RingExtents {
    std::array<tensor::Extent, 2> held{};
    std::array<tensor::Extent, 2> slots{};
    std::size_t n_held = 0;
    std::size_t n_slots = 0;
    std::int64_t first_held = 0;  // positions
    std::int64_t first_slot = 0;
  };

  Sequence() = default;
  const Placed* find(LayerIndex layer, ComponentKind kind) const;
  tensor::PagedRows view(const Placed& placed) const;
  tensor::PagedRows ring_view(const Placed& placed) const;
  tensor::PagedRows view_of(const Placed& placed, std::span<const tensor::Extent> extents,
                            std::int64_t first_row) const;
  std::span<float> version_of(const Placed& placed, std::int64_t age) const;
  Result<tensor::PagedRows> any_rows(LayerIndex layer, ComponentKind kind) const;
  void refresh_rings() noexcept;
  Status check_readable() const;

  Status count_needs(Tokens n);
  Status copy_shared(Tokens n);
  Status copy_version(std::byte* block, std::int64_t from_age, std::int64_t to_age);
  void publish(Tokens n) noexcept;
  void release_windows() noexcept;
  PoolRef reset_block() noexcept;

  Status reserve_for(const Contents& contents);
  Status import(const Contents& contents, const Geometry& geometry);
  Status restore_from_elsewhere(const Snapshot& snapshot);
  Bytes own_bytes() const;

  Status check_shift_range(const ShiftRequest& request) const;
  Result<std::vector<PageTable>> shifted_tables(const ShiftRequest& request) const;
  Status compact(std::size_t group, PageTable& table) const;

  std::shared_ptr<PagePool> pool_;  // first, so that it goes after the references
  Tokens capacity_{0};
  Contents contents_;
  Tokens step_{0};  // positions of the open step; 0: none is open
  bool poisoned_ = false;
  bool all_versions_ = false;       // of the open step
  std::vector<RingExtents> rings_;  // as geometry.rings

  // Scratch of prepare, kept so that a step takes nothing from the heap.
  std::vector<std::int64_t> needs_;  // [n_classes]
  std::vector<PoolRef> taken_;
};

// Opens a step for each sequence of a batch; one that fails leaves the others' steps open.
// Requires: spans of equal length; statuses receives what each prepare returned.
void prepare_all(std::span<Sequence* const> sequences, std::span<const Tokens> counts,
                 std::span<Status> statuses);

}  // namespace kvant::state
