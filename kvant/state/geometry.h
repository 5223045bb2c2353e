// Where each row lies: a layout turned into page groups, offsets and one block.
//
// Append components, windowed ones too, are partitioned into page groups: equal window (that is,
// lifetime) and codec, one group. A page holds the rows of all the group's components for
// page_positions positions, so it is one unit of allocation, sharing, hashing and I/O. Rings and
// recurrent components of all layers share one block.
//
//   page of a group                                          block
//   +---------------------+---------------------+--- ...     +---------------+---------------+--
//   ... | keys of layer 2     | values of layer 2   |            | conv, layer 0 | conv, layer 1 |
//   | head 0 | head 1 |.. | head 0 | head 1 |.. |            | [rows, width] |               |
//   +---------------------+---------------------+--- ...     +---------------+---------------+--
//   ...
//     each head: page_positions / ratio rows, contiguous       f32
//
// A ring has room for its window and for as many rows more as a rollback may take back; its row of
// position p is row p mod n_slots. A recurrent component likewise has a version for each position
// that a rollback can return to.
//
// Invariants
//   1. Pages depend on the layout alone and the block on the rollback depth too, never on a
//      context: a page means the same in every sequence.
//   2. Components start at multiples of 64 bytes in layer order; pages and blocks are multiples
//      of 64 bytes long.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/state/layout.h"
#include "kvant/tensor/dtype.h"

namespace kvant::state {

// One component of the layout with its place.
struct Placed {
  LayerIndex layer;
  ComponentSpec spec;
  std::int32_t group = -1;   // page group of an append component; -1: in the block
  std::int32_t table = -1;   // which extent table of the group, or which of `rings`, serves it
  Bytes offset{0};           // within the page or the block
  Bytes row_bytes{0};        // one row of one head, or one row of a recurrent block
  Bytes head_stride{0};      // from one head's rows to the next head's; 0 for recurrent blocks
  std::int64_t n_slots = 0;  // rows of a ring, versions of a recurrent component
  Bytes version_bytes{0};    // of a recurrent component
  Bytes bytes{0};            // in one page, or in the block
};

struct PageGroup {
  codec::Kind codec = codec::Kind::kF32;
  Tokens window{0};                    // 0: pages stay as long as the sequence
  Bytes page_bytes{0};                 // what one page costs, padding included
  std::vector<std::int64_t> ratios{};  // distinct ratios, one extent table each
  std::vector<std::size_t> members{};  // indices into Geometry::components
};

// Rings of equal window and groups hold rows of the same positions in the same slots.
struct RingShape {
  Tokens window{0};
  Tokens group{0};
  std::int64_t n_slots = 0;
};

struct Geometry {
  static constexpr std::int64_t kAlignment = 64;  // a cache line, and the widest vector load

  Tokens page_positions{0};
  Tokens max_rollback{0};
  std::vector<Placed> components;        // layer by layer, as declared
  std::vector<std::size_t> layer_begin;  // [n_layers + 1] into components
  std::vector<PageGroup> groups;
  std::vector<RingShape> rings{};
  bool has_recurrent = false;
  Bytes block_bytes{0};  // 0: neither rings nor recurrent components

  // The component of a layer, null when it has none of that kind or there is no such layer.
  const Placed* find(LayerIndex layer, ComponentKind kind) const;

  // Classes of pool objects: one a group, and the block's if there is one.
  std::size_t n_classes() const { return groups.size() + (block_bytes.value() > 0 ? 1 : 0); }
  std::size_t block_class() const { return groups.size(); }
  Bytes class_bytes(std::size_t object_class) const {
    return object_class < groups.size() ? groups[object_class].page_bytes : block_bytes;
  }
};

// Bytes up to where the next component, page or block may begin. Requires: no overflow.
constexpr Bytes padded(Bytes bytes) {
  constexpr std::int64_t kAlignment = Geometry::kAlignment;
  return Bytes((bytes.value() + kAlignment - 1) / kAlignment * kAlignment);
}

// Requires: max_rollback of at least 0.
// Errors: those of Layout::validate; kByteOverflow{layer, kind} when a page or the block cannot be
// counted; kOutOfMemory.
Result<Geometry> make_geometry(const Layout& layout, Tokens max_rollback = Tokens(0));

}  // namespace kvant::state
