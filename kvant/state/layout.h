// What a model remembers, declared: layers, their components, how each is stored.
//
// A layer's memory is a list of components. A component is a discipline (how it grows and when it
// is overwritten), the shape of its rows, how they are stored and what they hold before the first
// token. Everything else in this room (plan, pages, steps, snapshots) is written once over
// components; an architecture only declares its list (declarations.h).
//
//   discipline       grows                          overwritten   shared by snapshots as
//   append           one row per `ratio` positions  never         pages
//   windowed append  as append, old pages go        never         pages
//   ring             no, a few rows                 row p mod w   a block, copied on write
//   recurrent        no, a fixed block              every token   a block, copied on write
//
// Reading order of the room: layout.h, geometry.h (where rows lie), plan.h (what it costs),
// pool.h (where the bytes come from), page_table.h, sequence.h (the step protocol), snapshot.h.
// Beside them: declarations.h (architectures), logical_buffers.h (a plan as others count it) and
// span.h (slots and rows of a step).
//
// Invariants of a valid layout
//   1. A layer has at most one component of a kind.
//   2. Every ratio divides page_positions, so a row never spans two pages.
//   3. Two equal layouts place every byte alike: a snapshot fits any sequence of an equal layout.
#pragma once

#include <cstdint>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/codec/kind.h"

namespace kvant::state {

// Numbers are part of files: never changed or reused.
enum class Discipline : std::uint8_t {
  kAppend = 0,
  kWindowedAppend = 1,
  kRing = 2,
  kRecurrent = 3,
};

std::string_view name_of(Discipline discipline);

// One component of one layer. The first group of fields describes rows (append, windowed append,
// ring), the second recurrent blocks; the other group stays at its defaults.
struct ComponentSpec {
  ComponentKind kind = ComponentKind::kNone;
  Discipline discipline = Discipline::kAppend;

  // Rows [n_heads, n, row_width] of `codec`, n = positions / ratio (append), at most `window`
  // (windowed append and ring, where the ratio is 1).
  codec::Kind codec = codec::Kind::kF32;
  Heads n_heads{0};
  Elements row_width{0};
  std::int64_t ratio = 1;  // positions a row stands for; its row is complete when the last is in
  Tokens window{0};        // positions a query sees, its own included; 0: all (append only)

  // Ring: 0 for a window that slides. Otherwise rows are collected in groups of this many
  // positions and the window is a multiple of it: rows stay until their group and the groups that
  // the window holds beside it are complete (a compressor's state).
  Tokens group{0};
  // Of such a ring: how many numbers of a row are still read once its group is complete; 0: all.
  Elements overlap_width{0};

  // Recurrent: [n_rows, width] f32.
  Rows n_rows{0};
  Elements width{0};
  // What it holds says at which positions its tokens stood, so that they cannot move.
  bool bound_to_positions = false;

  // Recurrent, and rings of f32: before the first token, also -inf.
  float initial_value = 0.0F;

  friend bool operator==(const ComponentSpec& a, const ComponentSpec& b);
};

struct LayerSpec {
  std::vector<ComponentSpec> components;  // in the order in which pages and blocks hold them

  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

struct Layout {
  // Rows of positions a page holds; kernels sum a page's rows into one partial (docs/numerics.md),
  // so it shapes results and belongs to a state's identity.
  static constexpr std::int64_t kMaxPagePositions = 128;
  // A ring is copied whole by whoever diverges from a snapshot, so it stays small; longer windows
  // are windowed append.
  static constexpr std::int64_t kMaxRingPositions = 128;

  std::vector<LayerSpec> layers;
  Tokens page_positions{kMaxPagePositions};

  // Accepts page_positions from 1 to 128 so that tests can use small pages; a model's declaration
  // uses 16 to 128.
  // Errors: kLayoutInvalid{layer, kind, actual, expected: the limit} for no layers, a page size or
  // ratio out of range, a ratio that does not divide a page, a dimension below 1, a kind that is
  // no part of a layer's memory or is declared twice, a window where there is none or none where
  // there must be one, a ring that is too long, a ratio of a windowed component other than 1, a NaN
  // as initial value; kUnsupported{layer, kind} for an unknown discipline.
  Status validate() const;

  friend bool operator==(const Layout&, const Layout&) = default;
};

// Where two layouts first differ, as an error of that code: {layer, kind} of a component, as `b`
// has it where it has one; without layer, {actual, expected: layers of a and b} for other numbers
// of layers or page sizes. Requires: a != b.
Error first_difference(ErrorCode code, const Layout& a, const Layout& b);

}  // namespace kvant::state
