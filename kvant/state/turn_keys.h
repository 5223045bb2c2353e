// Turning stored keys to where a shift has moved them.
//
// A shifted sequence keeps its keys as they were stored and has its queries turned instead
// (Sequence::position_runs). Turning the keys costs a pass over their bytes and, for keys of 16
// bits, one rounding, and leaves a sequence that reads like one that was never shifted: one run,
// all deltas 0. Worth it before long work on a sequence of many cuts, or for a reader that knows
// nothing of deltas.
#pragma once

#include "kvant/base/result.h"
#include "kvant/kernels/kernel_table.h"
#include "kvant/kernels/rope_frequencies.h"
#include "kvant/state/sequence.h"

namespace kvant::state {

// How the keys of a model are rotated.
struct KeyRotation {
  ComponentKind kind = ComponentKind::kKeys;
  const kernels::RopeFrequencies* frequencies = nullptr;
  kernels::RopePairing pairing = kernels::RopePairing::kNeox;
};

// Turns the keys of all rows that have a position delta; pages that others refer to are copied
// first. Nothing else changes but that rows no longer have deltas; the lineage stays derived.
// Errors, each changing nothing: kPoisoned; kStepOpen; kUnsupported{layer, kind} for keys that are
// not wholly rotated, or not stored as floats; kPoolExhausted; kOutOfMemory; the device's.
// Cost: reads and writes every key that has moved.
Status turn_stored_keys(Sequence& sequence, const kernels::KernelTable& table,
                        const KeyRotation& rotation);

}  // namespace kvant::state
