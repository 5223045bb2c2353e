// Errors as values.
//
// An Error is small and trivially copyable, so that the rooms below model can pass it through
// noexcept code, across threads and back from a device without allocating. It holds facts only:
// what was received (actual), what was expected, where (component kind, layer) and the cause that
// the system gave (errno or a device's code). Text is made when somebody prints it (describe).
//
// Rooms that meet names (model, engine, cache, serve) use NamedError: an Error and a detail of at
// most 256 bytes whose control characters are escaped, since names come from files and requests.
//
// Invariants
//   1. A code's number is never changed or reused; ranges belong to rooms.
//   2. Codes are made for input, files, memory, devices and peers. Broken invariants of our own
//      are KVANT_CHECK, which aborts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace kvant {

// What part of a layer's memory an error, a plan line or a view speaks of.
enum class ComponentKind : std::uint8_t {
  kNone = 0,
  kKeys = 1,            // K rows of full attention
  kValues = 2,          // V rows of full attention
  kConvState = 3,       // last conv_width - 1 inputs of a short convolution
  kWindowKv = 4,        // ring of a sliding window
  kAttentionKv = 5,     // window and compressed rows together, as the DeepSeek-V4 seed counts them
  kCompressedKv = 6,    // compressed rows
  kIndexerKv = 7,       // rows of the indexer
  kMainKvState = 8,     // compressor state
  kMainScoreState = 9,  // compressor scores, initially -inf
  kIndexerKvState = 10,
  kIndexerScoreState = 11,
  kRecurrentState = 12,  // state of an SSM or delta-net layer
  kWeights = 13,
  kScratch = 14,
  kLogits = 15,
};

std::string_view name_of(ComponentKind kind);

enum class ErrorCode : std::uint16_t {
  // base and tensor: 1 to 99
  kOutOfMemory =
      1,  // actual: bytes requested (UINT64_MAX when the size overflows), expected: bytes left
  kAllocateFailed = 2,  // the device could not allocate; actual: bytes
  kViewFailed = 3,  // a view would leave its buffer; actual: end in bytes, expected: bytes there
  kInitialiseFailed = 4,  // memory could not be given its initial value
  kCopyFailed = 5,        // actual: bytes
  kDeviceFailed = 6,      // cause: the device's code
  kInvalidArgument = 7,   // actual: value, expected: the bound it breaks
  kCancelled = 8,
  kUnsupported = 9,    // asked for something this build or machine cannot do
  kThreadFailed = 10,  // a thread could not be started; cause: errno

  // files: 100 to 199
  kFileOpenFailed = 100,
  kFileReadFailed = 101,
  kFileTruncated = 102,  // actual: bytes there, expected: bytes needed
  kFileMapFailed = 103,
  kFileWriteFailed = 104,
  kNotAFile = 105,

  // kernels and codec: 200 to 299
  kTargetUnavailable = 200,  // the processor lacks what a kernel target needs
  kUnknownCodec = 201,
  kDigestMismatch = 202,

  // state: 400 to 499
  kEmptyContext = 400,
  kContextBound = 401,  // actual: requested positions, expected: maximum
  kByteOverflow = 402,
  kAddressSpace = 403,  // actual: bytes
  kAccounting = 404,    // actual: bytes allocated, expected: bytes planned
  kPoisoned = 405,
  kStepOutOfOrder = 406,    // actual: position given, expected: next position
  kContextExhausted = 407,  // expected: maximum
  kEmptyPrefill = 408,
  kPrefillNotEmpty = 409,  // actual: position
  kPoolExhausted = 410,    // actual: bytes needed, expected: bytes left in the budget
  kSnapshotPlanMismatch = 411,
  kComponentMissing = 412,  // the layer has no such component
  kStepOpen = 413,       // the sequence has a prepared step that is neither committed nor poisoned
  kLayoutInvalid = 414,  // actual: value, expected: what the declaration allows
  kStepNotPrepared = 415,    // actual: positions to commit, expected: positions prepared (0: none)
  kSlidingWindow = 416,      // actual: window of the configuration, expected: the longest that runs
  kLayerCount = 417,         // actual: compress ratios given, expected: layers
  kCompressionRatio = 418,   // actual: ratio
  kRollbackBound = 419,      // actual: positions to take back, expected: the most that can be
  kShiftRefused = 420,       // the component's memory is bound to positions
  kShiftRange = 421,         // actual: end of the positions to drop, expected: position
  kShiftNotPlanned = 422,    // the plan was made without shifts
  kShiftRowsReleased = 423,  // actual: oldest row left, expected: oldest row needed
  kShiftPieces = 424,        // actual: pieces of the page table, expected: room
  kMigrationContext = 425,  // actual: capacity of the destination, expected: more than the source's
  kMigrationPlanMismatch = 426,
  kMigrationSnapshotPlanMismatch = 427,
  kMigrationSnapshotPosition = 428,  // actual: the snapshot's position, expected: the source's
  kSnapshotBufferMismatch = 429,     // actual: bytes, expected: bytes
  kStateVersion = 430,               // actual: version of the file, expected: the newest known
  kChecksumMismatch = 431,
  kFingerprintMismatch = 432,

  // model: 600 to 699
  kBadFormat = 600,  // not the kind of file it should be
  kBadJson = 601,
  kHeaderTooLong = 602,  // actual: length given, expected: bytes there
  kUnknownDtype = 603,
  kOffsetOutOfRange = 604,
  kOverlap = 605,
  kByteSizeMismatch = 606,  // shape x dtype != bytes
  kDuplicateName = 607,
  kMissingTensor = 608,
  kShapeMismatch = 609,
  kMissingKey = 610,
  kBadValue = 611,
  kUnsupportedModel = 612,
  kMissingFile = 613,
  kLimitExceeded = 614,  // a bound of ours against hostile input

  // engine: 700 to 799
  kTokenOutOfRange = 700,  // actual: id, expected: vocabulary size
  kEmptyPrompt = 701,
  kPromptTooLong = 702,  // actual: tokens, expected: context
  kNoLogits = 703,       // nothing to sample from yet
  kContextFull = 704,    // expected: context
  kVerifyFailed = 705,
};

struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  ComponentKind component = ComponentKind::kNone;
  std::int32_t layer = -1;  // -1: not about a layer
  std::int32_t cause = 0;   // errno, or the device's code; 0: none
  std::uint64_t actual = 0;
  std::uint64_t expected = 0;

  friend bool operator==(const Error&, const Error&) = default;
};
static_assert(std::is_trivially_copyable_v<Error> && sizeof(Error) <= 32);

// An Error where names are known: a file, a tensor, a flag.
class NamedError {
 public:
  static constexpr std::size_t kMaxDetailBytes = 256;

  NamedError(Error error) : error_(error) {}  // NOLINT: an Error is a NamedError without a name
  // Keeps the first 256 bytes of `detail`, control characters escaped.
  NamedError(Error error, std::string_view detail);

  const Error& error() const { return error_; }
  ErrorCode code() const { return error_.code; }
  const std::string& detail() const { return detail_; }

 private:
  Error error_;
  std::string detail_;
};

// The stable short name of a code, as used in tests and --json ("out_of_memory").
std::string_view name_of(ErrorCode code);

// One line for a person: what was received, what was expected, what state things are in now.
std::string describe(const Error& error);
std::string describe(const NamedError& error);

// `text` with control characters and bytes that are not UTF-8 as \n, \t or \xNN, cut to at most
// `max_bytes` at a border of a character or escape. The result is always valid UTF-8 on one line.
std::string escape_for_display(std::string_view text, std::size_t max_bytes);

}  // namespace kvant
