#include "apps/kvant/reply.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "apps/kvant/stop_filter.h"
#include "kvant/model/chat.h"

namespace kvant::app {

NamedResult<Reply> generate_reply(engine::Session& session, engine::Sampler& sampler,
                                  const model::Tokenizer& tokenizer, const ReplyOptions& options,
                                  const TextSink& sink) {
  Reply reply;
  model::StreamDecoder decoder(tokenizer, model::SpecialOutput::kSkip);
  StopFilter filter(options.stops);
  std::optional<Error> decode_error;
  const auto give = [&](std::string_view text) {
    if (text.empty()) return true;
    reply.text += text;
    return sink(text);
  };
  const auto take_token = [&](TokenId id) {
    reply.tokens.push_back(id);
    auto text = decoder.push(id);
    if (!text) {
      decode_error = text.error();
      return false;
    }
    return give(filter.push(*text)) && filter.found().empty();
  };
  reply.reason = KVANT_TRY(session.generate(
      {.max_tokens = options.max_tokens, .stop_tokens = options.stop_ids}, sampler, take_token));
  if (decode_error) return NamedError(*decode_error, "token of the reply");
  if (filter.found().empty()) {
    give(filter.push(decoder.flush()));
    give(filter.flush());
  }
  reply.stop = filter.found();
  return reply;
}

std::vector<TokenId> stop_ids_of(const model::ModelConfig& config,
                                 const model::Tokenizer& tokenizer) {
  std::vector<TokenId> ids = config.eos_ids;
  const auto format = model::ChatFormat::detect(tokenizer);
  if (!format) return ids;
  for (const TokenId id : format->stop_ids()) {
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

}  // namespace kvant::app
