// One reply: tokens from a session, as text that streams.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/engine/session.h"
#include "kvant/model/tokenizer.h"

namespace kvant::app {

struct ReplyOptions {
  std::int64_t max_tokens = 256;
  std::vector<TokenId> stop_ids;
  std::vector<std::string> stops;  // not printed, nor any part of them
};

struct Reply {
  std::string text;
  std::vector<TokenId> tokens;
  engine::FinishReason reason = engine::FinishReason::kStop;
  std::string stop;  // the one of `stops` that ended it, if one did
};

// Takes text that will not change any more; false: stop.
using TextSink = std::function<bool(std::string_view)>;

// Errors: those of Session::generate and StreamDecoder::push.
NamedResult<Reply> generate_reply(engine::Session& session, engine::Sampler& sampler,
                                  const model::Tokenizer& tokenizer, const ReplyOptions& options,
                                  const TextSink& sink);

// The ids that end a reply: the config's and the chat format's, if the model has one.
std::vector<TokenId> stop_ids_of(const model::ModelConfig& config,
                                 const model::Tokenizer& tokenizer);

}  // namespace kvant::app
