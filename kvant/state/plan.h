// What a state will cost, to the byte, before anything is allocated.
//
// Two counts stand side by side. `logical_bytes` are the rows of a context exactly, as papers and
// other engines count them. What the pool will hold is a little more: whole pages, 64-byte
// padding, one block of initial values that all fresh sequences share, and what snapshots need
// when sequences go on after them.
//
//   pool_bytes = n_sequences * (pages of each group + one block)
//              + n_snapshots * (one page of each group + one block)      first write after each
//              + one block                                               the initial values
//
// A group without window needs the pages of the whole context; one with a window needs those that
// can hold a row of the window, of the rollback depth and of one step of max_step positions.
//
// Planning touches no memory and asks no device: a plan for a million positions of a large model
// is a few microseconds of checked arithmetic.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/state/geometry.h"
#include "kvant/state/layout.h"

namespace kvant::state {

// Whether sequences may drop positions in the middle (Sequence::shift).
enum class Shifts : std::uint8_t {
  kNone,
  // Two pages more a group and sequence: holes may make up to a page, and closing one takes a page
  // before it gives two back.
  kPlanned,
};

struct PlanRequest {
  Tokens context{0};             // positions of a sequence
  std::int64_t n_sequences = 1;  // that may fill their context at once
  // Snapshots and forks held beside them. One costs nothing when taken; the first step after it
  // copies the open page of each group and the block.
  std::int64_t n_snapshots = 0;
  // Steps up to this length take nothing from the heap; longer ones are allowed.
  Tokens max_step{512};
  // How many positions back a sequence must be able to return: windowed pages stay that much
  // longer, rings and recurrent components keep that much more.
  Tokens max_rollback{0};
  Shifts shifts = Shifts::kNone;
};

// One component of one layer.
struct ComponentPlan {
  LayerIndex layer;
  ComponentKind kind = ComponentKind::kNone;
  Discipline discipline = Discipline::kAppend;
  tensor::Dtype dtype = tensor::Dtype::kF32;
  // [n_heads, context / ratio, row_width] (append), [n_heads, min(window, context), row_width]
  // (windowed append and ring), [1, n_rows, width] (recurrent).
  std::array<std::int64_t, 3> shape{};
  Bytes logical_bytes{0};  // of one sequence: the product of shape and dtype

  // "[8, 4096, 64]"
  std::string shape_text() const;
};

struct Plan {
  Layout layout;
  PlanRequest request;
  Geometry geometry;
  std::vector<ComponentPlan> components{};  // as geometry.components

  Bytes logical_bytes{0};            // of one sequence, all components
  Pages pages_per_sequence{0};       // of a group without window, for the whole context
  std::vector<Pages> group_pages{};  // [n_groups] that one sequence may hold at once

  // Parts of the pool.
  Bytes page_bytes{0};       // n_sequences, whole pages
  Bytes recurrent_bytes{0};  // n_sequences blocks (rings too) and the block of initial values
  Bytes diverging_bytes{0};  // that a sequence may copy when it goes on after a snapshot or fork
  Bytes snapshot_bytes{0};   // n_snapshots diverging
  Bytes pool_bytes{0};       // the pool's budget: the sum of the three
  // Address space the pool reserves: each class of objects may use the whole budget.
  Bytes address_bytes{0};

  Bytes table_bytes{0};  // page tables of n_sequences, on the heap, outside the pool

  Bytes total_bytes() const { return pool_bytes + table_bytes; }
  const ComponentPlan* find(LayerIndex layer, ComponentKind kind) const;

  // Bytes of one sequence that do not grow with it (rings and recurrent components, exactly): what
  // a snapshot must own when rows are shared.
  Bytes logical_fixed_bytes() const;

  // Objects of a class that the pool's budget was counted for.
  std::int64_t n_planned(std::size_t object_class) const;
  // Objects of a class that the pool's address space has room for.
  std::int64_t n_slots(std::size_t object_class) const;
  // Pages of a group that a sequence of `context` positions may hold at once.
  Pages group_pages_for(std::size_t group, Tokens context) const;
  // Bytes of the pool that only max_rollback needs.
  Bytes rollback_bytes() const;
  // The most objects that one step of max_step positions takes from the pool.
  std::int64_t objects_per_step() const;
};

// Errors, in this order: kEmptyContext for a context below 1; kInvalidArgument for n_sequences
// or max_step below 1, n_snapshots or max_rollback below 0; those of Layout::validate;
// kByteOverflow{layer, kind} for a component whose bytes cannot be counted, without layer for a
// sum; kAddressSpace{ actual: bytes} when the pool would not fit the address space; kOutOfMemory.
// Cost: linear in the number of components.
Result<Plan> make_plan(const Layout& layout, const PlanRequest& request);

// The inverse: the longest context in [1, maximum] whose plan's total_bytes fit `budget`, the
// other fields of `request` as given (its context is ignored).
// Errors: those of make_plan, kOutOfMemory{actual: bytes of context 1, expected: budget} when not
// even one position fits.
Result<Tokens> longest_context(const Layout& layout, PlanRequest request, Bytes budget,
                               Tokens maximum);

// The other inverse: the most sequences in [1, maximum] that fit, the other fields as given.
// Errors: as longest_context, for one sequence.
Result<std::int64_t> most_sequences(const Layout& layout, PlanRequest request, Bytes budget,
                                    std::int64_t maximum);

}  // namespace kvant::state
