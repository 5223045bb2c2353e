#include "kvant/engine/likelihood.h"

#include <algorithm>

#include "kvant/kernels/math.h"

namespace kvant::engine {

double logsumexp(std::span<const float> logits) {
  const double largest = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0.0;
  for (const float logit : logits) sum += kernels::exp64(static_cast<double>(logit) - largest);
  return largest + kernels::log64(sum);
}

double negative_log_likelihood(std::span<const float> logits, TokenId token) {
  return logsumexp(logits) - static_cast<double>(logits[static_cast<std::size_t>(token)]);
}

}  // namespace kvant::engine
