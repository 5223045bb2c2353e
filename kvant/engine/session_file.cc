// Sessions to state files and back.
#include <new>
#include <utility>

#include "kvant/base/file.h"
#include "kvant/base/new_file.h"
#include "kvant/engine/session.h"
#include "kvant/model/state_fingerprint.h"
#include "kvant/model/token_check.h"
#include "kvant/state/state_file.h"
#include "kvant/state/state_file_writer.h"

namespace kvant::engine {
namespace {

class FileSink final : public state::StateSink {
 public:
  explicit FileSink(NewFile& file) : file_(file) {}
  Status write(Bytes offset, std::span<const std::byte> bytes) override {
    return file_.write(offset, bytes);
  }

 private:
  NewFile& file_;
};

// What a session must be able to do to go on from a state with so many position deltas.
Status check_deltas(const std::vector<state::PositionRun>& runs, std::int64_t n_allowed) {
  std::int64_t n_deltas = 0;
  state::for_each_delta(runs, [&](std::int64_t) { n_deltas += 1; });
  if (n_deltas <= n_allowed) return ok();
  return Error{.code = ErrorCode::kShiftNotPlanned};
}

}  // namespace

Result<state::Fingerprint> Session::fingerprint() {
  if (!fingerprint_) {
    fingerprint_ = KVANT_TRY(model::state_fingerprint(*model_, sequence_.layout()));
  }
  return *fingerprint_;
}

NamedStatus Session::save(const std::string& path) {
  const auto checkpoint = this->checkpoint();
  if (!checkpoint) return NamedError(checkpoint.error().error(), path);
  const auto expected = fingerprint();
  if (!expected) return NamedError(expected.error(), path);
  std::vector<TokenId> tokens;
  try {
    tokens = checkpoint->tokens;
    if (pending_) tokens.push_back(*pending_);
  } catch (const std::bad_alloc&) {
    return NamedError(Error{.code = ErrorCode::kOutOfMemory}, path);
  }
  auto writer = state::StateFileWriter::create(
      checkpoint->state,
      {.fingerprint = *expected, .tokens = tokens, .logits = checkpoint->logits});
  if (!writer) return NamedError(writer.error(), path);
  // A conversation is nobody else's business.
  NewFile file = KVANT_TRY(NewFile::create(path, NewFile::Readers::kOwnerOnly));
  FileSink sink(file);
  const Status written = writer->write(sink);
  if (!written) return NamedError(written.error(), path);
  return file.commit();
}

NamedStatus Session::load(const std::string& path) {
  const MappedFile file = KVANT_TRY(MappedFile::open(path));
  if (sequence_.poisoned()) KVANT_TRY(reset());
  const Status loaded = load_bytes(file.bytes());
  if (!loaded) return NamedError(loaded.error(), path);
  return {};
}

Status Session::load_bytes(std::span<const std::byte> bytes) {
  const state::StateFile file = KVANT_TRY(state::StateFile::open(bytes));
  const state::StateFileHeader& header = file.header();
  const state::Fingerprint expected = KVANT_TRY(fingerprint());
  KVANT_TRY(file.check(sequence_.layout(), expected));
  if (header.position - Position(0) > context()) {
    return Error{.code = ErrorCode::kContextBound,
                 .actual = static_cast<std::uint64_t>(header.position.value()),
                 .expected = context().size()};
  }
  const std::vector<TokenId> tokens = KVANT_TRY(file.tokens());
  const std::vector<float> logits = KVANT_TRY(file.logits());
  const std::size_t n_held = header.position.index();
  const bool whole = tokens.size() == n_held || tokens.size() == n_held + 1;
  if (!whole ||
      (!logits.empty() && logits.size() != static_cast<std::size_t>(model_->config.vocab_size))) {
    return Error{.code = ErrorCode::kBadFormat};
  }
  KVANT_TRY(model::check_tokens(tokens, model_->config));
  KVANT_TRY(check_deltas(header.runs, plan_.workspace_shape.max_query_variants));
  const NamedStatus grown = grow_for(header.position - Position(0));
  if (!grown) return grown.error().error();
  Status restored = file.restore(sequence_, expected);
  if (!restored && restored.error().code == ErrorCode::kPoolExhausted) {
    // No room for both; the file has passed every check.
    if (const NamedStatus emptied = reset(); !emptied) return emptied.error().error();
    restored = file.restore(sequence_, expected);
  }
  KVANT_TRY(restored);
  // Within the capacities reserved at start: a state that fits the context has no more tokens.
  tokens_.assign(tokens.begin(), tokens.begin() + header.position.value());
  logits_.assign(logits.begin(), logits.end());
  pending_ = tokens.size() > n_held ? std::optional(tokens.back()) : std::nullopt;
  return ok();
}

}  // namespace kvant::engine
