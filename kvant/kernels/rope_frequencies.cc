#include "kvant/kernels/rope_frequencies.h"

#include <cmath>
#include <new>

#include "kvant/kernels/math.h"

namespace kvant::kernels {
namespace {

Error invalid(std::int64_t actual, std::int64_t expected) {
  return Error{.code = ErrorCode::kInvalidArgument,
               .actual = static_cast<std::uint64_t>(actual),
               .expected = static_cast<std::uint64_t>(expected)};
}

}  // namespace

Result<RopeFrequencies> RopeFrequencies::create(const RopeParameters& parameters) {
  constexpr std::int64_t kWidest = 1 << 20;
  const std::int64_t head_dim = parameters.head_dim;
  if (head_dim <= 0 || head_dim % 2 != 0 || head_dim > kWidest) return invalid(head_dim, kWidest);
  if (!std::isfinite(parameters.theta) || parameters.theta <= 0.0) return invalid(0, 1);
  const std::int64_t n = head_dim / 2;
  const auto n_factors = static_cast<std::int64_t>(parameters.factors.size());
  if (n_factors != 0 && n_factors != n) return invalid(n_factors, n);
  for (const float factor : parameters.factors) {
    if (!std::isfinite(factor) || factor <= 0.0F) return invalid(0, 1);
  }
  RopeFrequencies out;
  try {
    out.inverse_.reserve(static_cast<std::size_t>(n));
    out.factors_.assign(parameters.factors.begin(), parameters.factors.end());
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory,
                 .actual = static_cast<std::uint64_t>(head_dim) * sizeof(double)};
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const double exponent = static_cast<double>(-2 * i) / static_cast<double>(head_dim);
    out.inverse_.push_back(pow64(parameters.theta, exponent));
  }
  return out;
}

void RopeFrequencies::angles(Tokens difference, float* cos, float* sin) const {
  const auto p = static_cast<double>(difference.value());
  for (std::size_t i = 0; i < inverse_.size(); ++i) {
    double angle = p * inverse_[i];
    if (!factors_.empty()) angle = angle / factors_[i];
    const SinCos result = sincos64(angle);
    cos[i] = static_cast<float>(result.cos);
    sin[i] = static_cast<float>(result.sin);
  }
}

}  // namespace kvant::kernels
