#include "kvant/model/token_check.h"

namespace kvant::model {

Status check_tokens(std::span<const TokenId> tokens, const ModelConfig& config) {
  for (const TokenId id : tokens) {
    if (id >= 0 && id < config.vocab_size) continue;
    return Error{.code = ErrorCode::kTokenOutOfRange,
                 .actual = static_cast<std::uint64_t>(static_cast<std::int64_t>(id)),
                 .expected = static_cast<std::uint64_t>(config.vocab_size)};
  }
  return ok();
}

}  // namespace kvant::model
