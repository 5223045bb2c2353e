// Whether tokens belong to a model's vocabulary: the one check for all who take ids from outside.
#pragma once

#include <span>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/model/config.h"

namespace kvant::model {

// Errors: kTokenOutOfRange{actual: the first bad id, expected: vocab_size}.
Status check_tokens(std::span<const TokenId> tokens, const ModelConfig& config);

}  // namespace kvant::model
