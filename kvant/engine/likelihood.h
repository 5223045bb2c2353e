// Log-likelihood of tokens from logits, in binary64 with our own exp and log.
#pragma once

#include <span>

#include "kvant/base/units.h"

namespace kvant::engine {

// log(sum of exp(logit)); the sum runs in ascending order of ids.
double logsumexp(std::span<const float> logits);

// -log p(token). Requires: token indexes logits.
double negative_log_likelihood(std::span<const float> logits, TokenId token);

}  // namespace kvant::engine
