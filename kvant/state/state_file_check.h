// Whether the header of a state file fits together. Internal to the room.
#pragma once

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/state/geometry.h"
#include "kvant/state/state_file.h"

namespace kvant::state {

// What a state can be at all, far beyond what any machine holds, so that sums of two cannot
// overflow.
inline constexpr std::int64_t kMaxAge = std::int64_t{1} << 48;

// Checks numbers against each other: position, age, runs, pieces of pages, and that the sections
// are those which the layout at that position has, in order, each as long as its rows. Requires: a
// geometry of the header's layout without rollback. Errors: kBadFormat;
// kSnapshotBufferMismatch{layer, kind, actual, expected}; kByteSizeMismatch{actual} for tokens or
// logits that are no whole numbers. Cost: O(sections).
Status check_header(const StateFileHeader& header, const Geometry& geometry);

// Checks that sections lie one behind the other between `begin` and the end of the file.
// Errors: kOffsetOutOfRange{actual, expected}; kFileTruncated{actual: bytes there, expected: bytes
// needed}; kBadFormat for bytes behind the last one.
Status check_offsets(const StateFileHeader& header, Bytes begin, Bytes file_bytes);

}  // namespace kvant::state
