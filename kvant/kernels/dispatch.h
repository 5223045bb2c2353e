// Which kernel target runs, chosen once at start.
//
// `ref` runs everywhere; `avx2` needs AVX2, FMA and F16C, `avx512` the F, BW, DQ and VL parts on
// top, each also enabled by the operating system. All give the same bits, so the choice is one of
// speed alone.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kvant/base/result.h"
#include "kvant/kernels/kernel_table.h"

namespace kvant::kernels {

// True if this build has the target and this machine can run it.
bool is_available(Target target);

// The table of a target. Requires: is_available(target).
const KernelTable& table_of(Target target);

// The fastest available target's table.
const KernelTable& best_table();

// All targets of this build, available or not, slowest first.
std::span<const Target> all_targets();
std::string_view name_of(Target target);

// The table named "ref", "avx2" or "avx512"; "auto" is best_table().
// Errors: kInvalidArgument for another name; kTargetUnavailable.
Result<const KernelTable*> find_table(std::string_view name);

// The arithmetic that docs/numerics.md takes for granted: binary32 and binary64 sums round to
// nearest even, and subnormal numbers are neither flushed nor read as zero. Of the calling thread.
// Errors: kUnsupported.
Status check_floating_point_mode();

// n rounded up to a multiple of kLanes: numbers of a packed row of activations.
constexpr std::int64_t padded_width(std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// Numbers of MatmulArgs::panel.
constexpr std::int64_t panel_floats(std::int64_t width) {
  return kPanelColumns * padded_width(width);
}

// What attention's working memory depends on.
struct AttentionShape {
  std::int64_t head_dim = 0;         // numbers a key row
  std::int64_t value_dim = 0;        // numbers a value row
  std::int64_t max_extent_rows = 0;  // rows a page; 1 or more
};

// Numbers of one worker's scratch for KernelTable::attention.
constexpr std::int64_t attention_part_floats(const AttentionShape& shape) {
  const std::int64_t scores = padded_width(shape.max_extent_rows);
  const std::int64_t numbers_a_query =
      padded_width(shape.head_dim) + scores + padded_width(shape.value_dim);
  return kAttentionQueries * (numbers_a_query + 4);
}

}  // namespace kvant::kernels
