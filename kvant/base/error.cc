#include "kvant/base/error.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <system_error>

namespace kvant {
namespace {

// The sentence of each code; {actual} and {expected} are replaced when printed.
struct CodeText {
  ErrorCode code;
  std::string_view name;
  std::string_view text;
};

constexpr CodeText kCodeTexts[] = {
    {ErrorCode::kOutOfMemory, "out_of_memory", "out of memory: {actual} bytes were requested"},
    {ErrorCode::kAllocateFailed, "allocate_failed", "allocation of {actual} bytes failed"},
    {ErrorCode::kViewFailed, "view_failed",
     "a view ends at byte {actual} of a buffer of {expected} bytes"},
    {ErrorCode::kInitialiseFailed, "initialise_failed", "memory could not be initialised"},
    {ErrorCode::kCopyFailed, "copy_failed", "a copy of {actual} bytes failed"},
    {ErrorCode::kDeviceFailed, "device_failed", "the device reported a failure"},
    {ErrorCode::kInvalidArgument, "invalid_argument",
     "argument out of range: {actual} (limit {expected})"},
    {ErrorCode::kCancelled, "cancelled", "cancelled"},
    {ErrorCode::kUnsupported, "unsupported", "not supported by this build or machine"},
    {ErrorCode::kThreadFailed, "thread_failed", "a thread could not be started"},
    {ErrorCode::kFileOpenFailed, "file_open_failed", "cannot open file"},
    {ErrorCode::kFileReadFailed, "file_read_failed", "cannot read file"},
    {ErrorCode::kFileTruncated, "file_truncated",
     "file is truncated: {actual} bytes, {expected} needed"},
    {ErrorCode::kFileMapFailed, "file_map_failed", "cannot map file"},
    {ErrorCode::kFileWriteFailed, "file_write_failed", "cannot write file"},
    {ErrorCode::kNotAFile, "not_a_file", "not a regular file"},
    {ErrorCode::kTargetUnavailable, "target_unavailable",
     "this processor cannot run the kernel target"},
    {ErrorCode::kUnknownCodec, "unknown_codec", "unknown kind of key or value rows"},
    {ErrorCode::kDigestMismatch, "digest_mismatch", "a kernel's output differs from its digest"},
    {ErrorCode::kEmptyContext, "empty_context", "a context of 0 positions holds nothing"},
    {ErrorCode::kContextBound, "context_bound",
     "{actual} positions were requested, the context holds {expected}"},
    {ErrorCode::kByteOverflow, "byte_overflow", "the plan's bytes do not fit 64 bits"},
    {ErrorCode::kAddressSpace, "address_space",
     "{actual} bytes do not fit this machine's address space"},
    {ErrorCode::kAccounting, "accounting", "{actual} bytes were allocated, {expected} planned"},
    {ErrorCode::kPoisoned, "poisoned",
     "the state is poisoned by a failed step; reset it or restore a snapshot"},
    {ErrorCode::kStepOutOfOrder, "step_out_of_order",
     "position {actual} was given, position {expected} is next"},
    {ErrorCode::kContextExhausted, "context_exhausted",
     "the context of {expected} positions is full"},
    {ErrorCode::kEmptyPrefill, "empty_prefill", "a step of 0 tokens"},
    {ErrorCode::kPrefillNotEmpty, "prefill_not_empty",
     "the state must be empty but is at position {actual}"},
    {ErrorCode::kPoolExhausted, "pool_exhausted",
     "the page pool has {expected} bytes left, {actual} are needed"},
    {ErrorCode::kSnapshotPlanMismatch, "snapshot_plan_mismatch",
     "the snapshot belongs to another layout"},
    {ErrorCode::kComponentMissing, "component_missing", "the layer has no such component"},
    {ErrorCode::kStepOpen, "step_open", "a prepared step is neither committed nor poisoned"},
    {ErrorCode::kLayoutInvalid, "layout_invalid",
     "the layout declares {actual} where {expected} is the limit"},
    {ErrorCode::kStepNotPrepared, "step_not_prepared",
     "a step of {actual} positions was named, {expected} are prepared"},
    {ErrorCode::kSlidingWindow, "sliding_window",
     "a sliding window of {actual} positions cannot run, 1 to {expected} can"},
    {ErrorCode::kLayerCount, "layer_count",
     "{actual} compress ratios are given for {expected} layers"},
    {ErrorCode::kCompressionRatio, "compression_ratio",
     "a compress ratio of {actual} cannot run, 0, 4 and 128 can"},
    {ErrorCode::kRollbackBound, "rollback_bound",
     "{actual} positions cannot be taken back, at most {expected} can; nothing changed"},
    {ErrorCode::kShiftRefused, "shift_refused",
     "the context cannot shift: this memory is bound to positions; nothing changed"},
    {ErrorCode::kShiftRange, "shift_range",
     "positions up to {actual} were to be dropped, the sequence is at {expected}; nothing changed"},
    {ErrorCode::kShiftNotPlanned, "shift_not_planned",
     "the state was planned without context shifts; nothing changed"},
    {ErrorCode::kShiftRowsReleased, "shift_rows_released",
     "the context cannot shift: the window would need rows from {expected} on, rows before "
     "{actual} were released; nothing changed"},
    {ErrorCode::kShiftPieces, "shift_pieces",
     "shifts would cut the state into {actual} pieces, there is room for {expected}; nothing "
     "changed"},
    {ErrorCode::kMigrationContext, "migration_context",
     "the new state holds {actual} positions, it must hold more than the {expected} of the old "
     "one; nothing changed"},
    {ErrorCode::kMigrationPlanMismatch, "migration_plan_mismatch",
     "the new state has another layout than the old one; nothing changed"},
    {ErrorCode::kMigrationSnapshotPlanMismatch, "migration_snapshot_plan_mismatch",
     "the snapshot has another layout than the old state; nothing changed"},
    {ErrorCode::kMigrationSnapshotPosition, "migration_snapshot_position",
     "the snapshot is at position {actual}, the old state at {expected}; nothing changed"},
    {ErrorCode::kSnapshotBufferMismatch, "snapshot_buffer_mismatch",
     "the snapshot gives {actual} bytes where {expected} belong; nothing changed"},
    {ErrorCode::kStateVersion, "state_version",
     "a state file of version {actual}, this program reads version {expected}"},
    {ErrorCode::kChecksumMismatch, "checksum_mismatch",
     "the bytes do not match their checksum: the file is damaged"},
    {ErrorCode::kFingerprintMismatch, "fingerprint_mismatch",
     "the state was made by another model or another numerics version"},
    {ErrorCode::kBadFormat, "bad_format", "not a file of the expected format"},
    {ErrorCode::kBadJson, "bad_json", "malformed JSON"},
    {ErrorCode::kHeaderTooLong, "header_too_long",
     "the header claims {actual} bytes, the file allows {expected}"},
    {ErrorCode::kUnknownDtype, "unknown_dtype", "unknown element type"},
    {ErrorCode::kOffsetOutOfRange, "offset_out_of_range",
     "data ends at byte {actual}, the file's data at {expected}"},
    {ErrorCode::kOverlap, "overlap", "data is not contiguous: byte {actual} follows {expected}"},
    {ErrorCode::kByteSizeMismatch, "byte_size_mismatch",
     "{actual} bytes are stored, shape and type need {expected}"},
    {ErrorCode::kDuplicateName, "duplicate_name", "name given twice"},
    {ErrorCode::kMissingTensor, "missing_tensor", "tensor is missing"},
    {ErrorCode::kShapeMismatch, "shape_mismatch",
     "wrong shape: dimension is {actual}, must be {expected}"},
    {ErrorCode::kMissingKey, "missing_key", "required key is missing"},
    {ErrorCode::kBadValue, "bad_value", "value is not usable"},
    {ErrorCode::kUnsupportedModel, "unsupported_model", "unsupported model"},
    {ErrorCode::kMissingFile, "missing_file", "file is missing"},
    {ErrorCode::kLimitExceeded, "limit_exceeded", "{actual} exceeds the limit of {expected}"},
    {ErrorCode::kTokenOutOfRange, "token_out_of_range",
     "token id {actual} is outside the vocabulary of {expected}"},
    {ErrorCode::kEmptyPrompt, "empty_prompt", "the prompt is empty; at least one token is needed"},
    {ErrorCode::kPromptTooLong, "prompt_too_long",
     "the prompt has {actual} tokens, the context holds {expected}"},
    {ErrorCode::kNoLogits, "no_logits", "nothing was evaluated yet, so there is nothing to sample"},
    {ErrorCode::kContextFull, "context_full", "the context of {expected} positions is full"},
    {ErrorCode::kVerifyFailed, "verify_failed", "values differ from the reference"},
};

constexpr CodeText kUnknownText = {ErrorCode{0}, "unknown", "unknown error"};

const CodeText& text_of(ErrorCode code) {
  for (const CodeText& entry : kCodeTexts) {
    if (entry.code == code) return entry;
  }
  return kUnknownText;
}

std::string number_text(std::uint64_t value) {
  if (value == std::numeric_limits<std::uint64_t>::max()) return "more than 2^64-1";
  return fmt::format("{}", value);
}

// Bytes of the UTF-8 character at the start of `text` (Unicode 15, table 3-7); 0 if there is none
// or if it is a control character: those of ASCII, and U+0080 to U+009F, which some terminals obey.
std::size_t printable_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return lead < 0x20 || lead == 0x7F ? 0 : 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second >= 0xA0;
  const bool beyond_unicode = lead == 0xF4 && second >= 0x90;
  const bool control = lead == 0xC2 && second < 0xA0;
  return overlong || surrogate || beyond_unicode || control ? 0 : length;
}

std::string escape_byte(char c) {
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  return fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
}

}  // namespace

std::string_view name_of(ComponentKind kind) {
  static constexpr std::array<std::string_view, 16> kNames = {"none",
                                                              "keys",
                                                              "values",
                                                              "conv_state",
                                                              "window_kv",
                                                              "attention_kv",
                                                              "compressed_kv",
                                                              "indexer_kv",
                                                              "main_kv_state",
                                                              "main_score_state",
                                                              "indexer_kv_state",
                                                              "indexer_score_state",
                                                              "recurrent_state",
                                                              "weights",
                                                              "scratch",
                                                              "logits"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::string_view name_of(ErrorCode code) { return text_of(code).name; }

std::string describe(const Error& error) {
  std::string out;
  if (error.layer >= 0) out += fmt::format("layer {}: ", error.layer);
  if (error.component != ComponentKind::kNone) out += fmt::format("{}: ", name_of(error.component));
  const bool signed_id = error.code == ErrorCode::kTokenOutOfRange;
  out += fmt::format(
      fmt::runtime(text_of(error.code).text),
      fmt::arg("actual", signed_id ? fmt::to_string(static_cast<std::int64_t>(error.actual))
                                   : number_text(error.actual)),
      fmt::arg("expected", number_text(error.expected)));
  if (error.code == ErrorCode::kOutOfMemory && error.expected != 0) {
    out += fmt::format(", {} are left", error.expected);
  }
  if (error.cause != 0 && error.code == ErrorCode::kDeviceFailed) {
    out += fmt::format(" (code {})", error.cause);
  } else if (error.cause != 0) {
    out += fmt::format(" ({})", std::system_category().message(error.cause));
  }
  return out;
}

std::string describe(const NamedError& error) {
  const std::string text = describe(error.error());
  return error.detail().empty() ? text : fmt::format("{}: {}", error.detail(), text);
}

std::string escape_for_display(std::string_view text, std::size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = printable_length(text);
    const std::string escaped = length == 0 ? escape_byte(text.front()) : std::string();
    const std::string_view piece = length == 0 ? std::string_view(escaped) : text.substr(0, length);
    if (out.size() + piece.size() > max_bytes) break;
    out += piece;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

NamedError::NamedError(Error error, std::string_view detail)
    : error_(error), detail_(escape_for_display(detail, kMaxDetailBytes)) {}

}  // namespace kvant
