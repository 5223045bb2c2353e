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

// Why a component keeps a layout from shifting: "a ring holds rows by their position", and the like
// for rows that stand for several positions and recurrent components that are bound to positions.
// Empty: it does not.
std::string_view shift_refusal(const ComponentSpec& spec);

// The first component that keeps a layout from shifting. None: it can shift.
std::optional<ShiftObstacle> shift_obstacle(const Layout& layout);

}  // namespace kvant::state
