#include "kvant/model/tokenizer_parts.h"

#include <fmt/format.h>

namespace kvant::model {
namespace {

NamedError unsupported(const JsonObject& object, std::string_view key, std::string_view received,
                       std::string_view supported) {
  return {Error{.code = ErrorCode::kUnsupported},
          fmt::format("{}: {} is {}, supported is {}", object.where(), key, received, supported)};
}

// The members of a Sequence under `key`, or the object itself as the only one.
NamedResult<std::vector<JsonObject>> steps_of(const JsonObject& object, std::string_view key) {
  std::vector<JsonObject> steps;
  if (KVANT_TRY(object.text("type")) != "Sequence") {
    steps.push_back(object);
    return steps;
  }
  constexpr std::size_t kStepsMax = 16;
  const simdjson::dom::array array = KVANT_TRY(object.array(key));
  for (const JsonValue step : array) {
    if (steps.size() == kStepsMax) return object.bad_value(key, "a short list");
    steps.push_back(
        KVANT_TRY(JsonObject::create(step, fmt::format("{}: {}", object.where(), key))));
  }
  return steps;
}

NamedResult<SplitPattern> read_split(const JsonObject& step) {
  const std::string_view behavior = KVANT_TRY(step.text("behavior"));
  if (behavior != "Isolated") {
    return unsupported(step, "behavior", in_quotes(behavior), "'Isolated'");
  }
  if (KVANT_TRY(step.find_flag("invert")).value_or(false)) {
    return unsupported(step, "invert", "true", "false");
  }
  const JsonObject pattern = KVANT_TRY(step.object("pattern"));
  const std::string_view regex = KVANT_TRY(pattern.text("Regex"));
  const auto known = pattern_from_regex(regex);
  if (!known) {
    return unsupported(pattern, "Regex", in_quotes(regex), "one of the published patterns");
  }
  return *known;
}

}  // namespace

NamedResult<SplitPattern> read_pre_tokenizer(const JsonObject& root) {
  const JsonObject object = KVANT_TRY(root.object("pre_tokenizer"));
  const auto steps = KVANT_TRY(steps_of(object, "pretokenizers"));
  std::optional<SplitPattern> pattern;
  bool maps_bytes = false;
  for (const JsonObject& step : steps) {
    const std::string_view type = KVANT_TRY(step.text("type"));
    if (maps_bytes) return unsupported(object, "a step after ByteLevel", in_quotes(type), "none");
    if (type == "Split") {
      if (pattern) return unsupported(object, "number of Split steps", "2", "1");
      pattern = KVANT_TRY(read_split(step));
    } else if (type == "ByteLevel") {
      if (KVANT_TRY(step.find_flag("add_prefix_space")).value_or(true)) {
        return unsupported(step, "add_prefix_space", "true", "false");
      }
      const bool splits = KVANT_TRY(step.find_flag("use_regex")).value_or(true);
      if (splits && pattern) return unsupported(step, "use_regex after Split", "true", "false");
      if (splits) pattern = SplitPattern::kGpt2;
      maps_bytes = true;
    } else {
      return unsupported(step, "type", in_quotes(type), "'Split' or 'ByteLevel'");
    }
  }
  if (!maps_bytes) return unsupported(object, "ByteLevel", "missing", "byte-level tokenizers");
  if (!pattern) return unsupported(object, "Split", "missing", "one of the published patterns");
  return *pattern;
}

NamedStatus check_normalizer_and_decoder(const JsonObject& root) {
  const auto normalizer = KVANT_TRY(root.find_object("normalizer"));
  if (normalizer) {
    const std::string_view type = KVANT_TRY(normalizer->text("type"));
    return unsupported(*normalizer, "type", in_quotes(type), "null");
  }
  const auto decoder = KVANT_TRY(root.find_object("decoder"));
  if (!decoder) return {};
  const std::string_view type = KVANT_TRY(decoder->text("type"));
  if (type != "ByteLevel") return unsupported(*decoder, "type", in_quotes(type), "'ByteLevel'");
  return {};
}

namespace {

// TemplateProcessing: "single" is [special tokens..., {"Sequence": {"id": "A"}}].
NamedResult<std::optional<std::string>> read_template(const JsonObject& step) {
  std::optional<std::string> bos_text;
  bool text_seen = false;
  const simdjson::dom::array single = KVANT_TRY(step.array("single"));
  for (const JsonValue value : single) {
    const JsonObject part = KVANT_TRY(JsonObject::create(value, step.where() + ": single"));
    const auto special = KVANT_TRY(part.find_object("SpecialToken"));
    if (special && (text_seen || bos_text)) {
      return unsupported(step, "single", "more than one special token or one after the text",
                         "one before the text");
    }
    if (special) {
      bos_text = std::string(KVANT_TRY(special->text("id")));
    } else {
      KVANT_TRY(part.object("Sequence"));
      if (text_seen) return unsupported(step, "single", "the text twice", "the text once");
      text_seen = true;
    }
  }
  if (!text_seen) return step.bad_value("single", "a list with one Sequence");
  return bos_text;
}

}  // namespace

NamedResult<Framing> read_framing(const JsonObject& root) {
  Framing framing;
  const auto object = KVANT_TRY(root.find_object("post_processor"));
  if (!object) return framing;
  const auto steps = KVANT_TRY(steps_of(*object, "processors"));
  for (const JsonObject& step : steps) {
    const std::string_view type = KVANT_TRY(step.text("type"));
    if (type == "ByteLevel") continue;  // only moves offsets, which nobody asks for here
    if (type != "TemplateProcessing" || framing.present) {
      return unsupported(step, "type", in_quotes(type), "'ByteLevel' and one 'TemplateProcessing'");
    }
    framing.present = true;
    framing.bos_text = KVANT_TRY(read_template(step));
  }
  return framing;
}

}  // namespace kvant::model
