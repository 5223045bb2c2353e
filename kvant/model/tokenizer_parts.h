// The parts of a tokenizer.json that say how text is cut and framed, beside its vocabulary.
// Internal to the room.
#pragma once

#include <optional>
#include <string>

#include "kvant/base/result.h"
#include "kvant/model/json.h"
#include "kvant/model/pretokenizer.h"

namespace kvant::model {

// The pattern of the pre_tokenizer. Errors: kUnsupported for any but the known ones, by name.
NamedResult<SplitPattern> read_pre_tokenizer(const JsonObject& root);

// Refuses a normalizer and a decoder that would need work which this program does not do.
NamedStatus check_normalizer_and_decoder(const JsonObject& root);

// The text of the token that a post_processor puts before a text; none when there is none.
// Errors: kUnsupported for one that does more than that.
struct Framing {
  bool present = false;  // the file has a post_processor that frames texts
  std::optional<std::string> bos_text;
};
NamedResult<Framing> read_framing(const JsonObject& root);

}  // namespace kvant::model
