// Which layouts can shift their context, and why others cannot.
#pragma once

#include <optional>
#include <string_view>

#include "kvant/base/units.h"
#include "kvant/state/layout.h"

namespace kvant::state {

// A component whose memory is bound to positions.
struct ShiftObstacle {
  LayerIndex layer;
  ComponentSpec spec;
};

// The first component that keeps a layout from shifting: a ring, rows that stand for several
// positions, or a recurrent component declared as bound to positions. None: it can shift.
std::optional<ShiftObstacle> shift_obstacle(const Layout& layout);

// "a ring holds rows by their position"
std::string_view reason_of(const ShiftObstacle& obstacle);

}  // namespace kvant::state
