// Which bytes of a state are live: those that a later step, or a rollback, can still read.
//
// Everything else is dead: an old row of a ring whose slot waits to be overwritten, the second
// halves of a completed group, rows of a page that no position has reached. Dead bytes are never
// copied, hashed or written to a file, and may hold anything.
#pragma once

#include <cstdint>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/state/geometry.h"
#include "kvant/state/plan.h"
#include "kvant/tensor/device.h"

namespace kvant::state {

// Rows of a ring by the position that wrote them.
struct LiveRows {
  std::int64_t begin = 0;
  std::int64_t whole = 0;  // rows [begin, whole) are read in their first overlap_width numbers only
  std::int64_t end = 0;

  std::int64_t count() const { return end - begin; }
};

// What is live of a ring when `position` is next and up to `depth` positions may be taken back.
// With depth 0 these are the rows that the next step may read.
LiveRows live_rows(Tokens window, Tokens group, Position position, Tokens depth = Tokens(0));

// Bytes of a ring's row that are still read when its group is complete: of overlap_width numbers.
Bytes narrow_row_bytes(const Placed& ring);

// Bytes of all heads of a ring that are live at `position`, with depth 0.
Bytes live_ring_bytes(const Placed& ring, Position position);

// Where a block's contents stand.
struct BlockView {
  const Geometry* geometry = nullptr;
  std::byte* data = nullptr;
};

// At which position, and how far back from it, a block's contents reach.
struct BlockAge {
  Position position{0};
  Tokens depth{0};
  std::int64_t age =
      0;  // positions ever seen: version v of a recurrent component is age mod n_slots
};

// Copies the live bytes of a block into another, whose rings and versions may be more or fewer:
// `age.depth` must fit both. What is dead in `to` is not written.
// Requires: geometries of one layout.
// Errors: the device's; the bytes of `to` are then unspecified.
Status copy_live_block(tensor::Device& device, const BlockAge& age, const BlockView& from,
                       const BlockView& to);

// Bytes that a sequence at `position` keeps alive: visible rows, rings and recurrent components as
// above. At most plan.logical_bytes.
// Requires: 0 <= position <= the plan's context.
Bytes live_bytes(const Plan& plan, Position position);

}  // namespace kvant::state
