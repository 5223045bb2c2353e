// The angles of rotary position embeddings, in binary64 up to the last rounding.
//
// Frequencies are computed once a model; the cosines and sines of a position are computed when a
// pass needs them, so that no table grows with the context. Order: docs/numerics.md, RoPE.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"

namespace kvant::kernels {

struct RopeParameters {
  double theta = 10000.0;
  std::int64_t head_dim = 0;            // even
  std::span<const float> factors = {};  // [head_dim / 2] or empty; angles are divided by them
};

class RopeFrequencies {
 public:
  // Positions, and differences of them either way, are below this.
  static constexpr std::int64_t kEndOfPositions = std::int64_t{1} << 31;

  // No heads turned; width() is 0.
  RopeFrequencies() = default;

  // Errors: kInvalidArgument for an odd or non-positive head_dim, a theta that is not finite and
  // positive, factors of another count or not finite and positive; kOutOfMemory{actual: bytes}.
  static Result<RopeFrequencies> create(const RopeParameters& parameters);

  // Angles a head: head_dim / 2.
  std::int64_t width() const { return static_cast<std::int64_t>(inverse_.size()); }

  // The cosine and sine of every angle by which keys and queries of two positions differ, the later
  // one minus the earlier; negative differences turn back.
  // Shapes: cos [width()], sin [width()]. Requires: |difference| < kEndOfPositions.
  void angles(Tokens difference, float* cos, float* sin) const;
  // The same from position 0.
  void angles(Position position, float* cos, float* sin) const {
    angles(position - Position(0), cos, sin);
  }

 private:
  std::vector<double> inverse_;  // [head_dim / 2] theta^(-2i / head_dim)
  std::vector<double> factors_;  // [head_dim / 2] or empty
};

}  // namespace kvant::kernels
