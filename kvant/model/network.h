// A loaded network: immutable weights and the forward pass over a ragged batch.
//
// The pass is batch-first. A batch is a list of spans, each some consecutive tokens of one
// sequence; one sequence is a batch of one, and prefill and decode are the same call. A row's
// result does not depend on the rest of the batch (docs/numerics.md).
//
// A network is shared by any number of threads. All that a pass writes lives in the caller's
// Workspace (scratch, sized once) and in the sequences' states, which the caller has prepared for
// exactly the span's tokens and commits afterwards:
//
//   prepare every sequence -> Network::forward -> Device::synchronize -> commit every sequence
//
// so a pass that fails before writing leaves the caller free to poison or to retry.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kvant/base/result.h"
#include "kvant/base/thread_pool.h"
#include "kvant/base/units.h"
#include "kvant/codec/kind.h"
#include "kvant/kernels/kernel_table.h"
#include "kvant/model/config.h"
#include "kvant/state/layout.h"
#include "kvant/state/sequence.h"

namespace kvant::model {

enum class LogitsWanted : std::uint8_t {
  kNone,  // a prompt's inner chunk
  kLast,  // of the span's last token
  kAll,   // of every token
};

struct BatchSpan {
  state::Sequence* sequence = nullptr;  // prepared for tokens.size() positions
  std::span<const TokenId> tokens;
  LogitsWanted wanted = LogitsWanted::kLast;
};

// Receives what a pass computes besides the state. Called on the thread that runs the pass; the
// spans are valid during the call only.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  // Logits of row `row` of span `span`, in ascending order. Shapes: logits [vocab_size].
  virtual void on_logits(std::size_t span, std::size_t row, std::span<const float> logits) = 0;
  // The input of layer `layer`, all rows of the batch; for layer == n_layers the output of the
  // final norm. Shapes: rows [n_rows, hidden_size].
  virtual void on_hidden(LayerIndex layer, std::span<const float> rows) {
    static_cast<void>(layer);
    static_cast<void>(rows);
  }
};

// What a Workspace is sized for.
struct WorkspaceShape {
  Rows max_rows{512};          // rows of all spans of a batch together
  Rows max_logit_rows{1};      // logits computed at a time; more wanted rows are done in blocks
  std::int64_t max_spans = 1;  // sequences of a batch
  // Different position deltas that a sequence may have (state::Sequence::position_runs): one, and
  // one more for each position at which shifts of it begin.
  std::int64_t max_query_variants = 1;
  int n_threads = 1;
};

// The scratch memory of a pass. Belongs to one session: never used by two passes at once.
class Workspace {
 public:
  virtual ~Workspace() = default;
  virtual const WorkspaceShape& shape() const = 0;
  virtual Bytes bytes() const = 0;
};

class Network {
 public:
  virtual ~Network() = default;

  virtual const ModelConfig& config() const = 0;

  // Bytes of weights kept in memory of our own (norms, reordered taps); mapped ones not counted.
  virtual Bytes owned_weight_bytes() const = 0;
  // Bytes of weights that one token's decode reads.
  virtual Bytes read_bytes_per_token() const = 0;

  // Errors: kOutOfMemory{actual: bytes}.
  virtual Result<std::unique_ptr<Workspace>> create_workspace(
      const WorkspaceShape& shape) const = 0;

  // Runs the batch: writes the new rows into the sequences' open steps and reports logits.
  // Requires: `workspace` made by this network's create_workspace, n_threads >= pool.n_threads().
  // Errors, all before anything is written: kTokenOutOfRange{id, vocab_size}; kInvalidArgument for
  // an empty batch or span, or more rows, spans or position deltas than the workspace has;
  // kLimitExceeded for a sequence that has seen 2^31 positions; kComponentMissing for a sequence of
  // another layout; kStepNotPrepared.
  // Threads: any number at once, each with its own workspace and sequences. Allocates nothing.
  virtual Status forward(std::span<const BatchSpan> batch, const kernels::KernelTable& kernels,
                         ThreadPool& pool, Workspace& workspace, PassObserver& observer) const = 0;
};

// The state layout of a model, from its config alone.
// Errors: kUnsupportedModel.
NamedResult<state::Layout> state_layout(const ModelConfig& config, codec::Kind keys,
                                        codec::Kind values);

// Bytes of a workspace, from the config alone; create_workspace allocates exactly this.
NamedResult<Bytes> workspace_bytes(const ModelConfig& config, const WorkspaceShape& shape);

}  // namespace kvant::model
