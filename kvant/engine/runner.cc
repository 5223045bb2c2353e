#include "kvant/engine/runner.h"

#include <algorithm>
#include <new>
#include <utility>

#include "kvant/kernels/dispatch.h"
#include "kvant/model/token_check.h"

namespace kvant::engine {
namespace {

// Gives the caller's span numbers back: the pass counts only the lanes that run.
class Renumbered final : public model::PassObserver {
 public:
  Renumbered(model::PassObserver& target, std::span<const std::size_t> index)
      : target_(target), index_(index) {}
  void on_logits(std::size_t span, std::size_t row, std::span<const float> logits) override {
    target_.on_logits(index_[span], row, logits);
  }
  void on_hidden(LayerIndex layer, std::span<const float> rows) override {
    target_.on_hidden(layer, rows);
  }

 private:
  model::PassObserver& target_;
  std::span<const std::size_t> index_;
};

}  // namespace

NamedResult<Machine> create_machine(int n_threads, std::string_view kernel_target) {
  KVANT_TRY(kernels::check_floating_point_mode());
  Machine machine{
      .pool = nullptr, .kernels = &kernels::best_table(), .device = &tensor::host_device()};
  if (!kernel_target.empty()) {
    const auto table = kernels::find_table(kernel_target);
    if (!table) return NamedError(table.error(), kernel_target);
    machine.kernels = *table;
  }
  auto pool = ThreadPool::create(n_threads);
  if (!pool) return NamedError(pool.error(), "threads");
  machine.pool = std::move(*pool);
  return machine;
}

Runner::Runner(std::shared_ptr<const model::Network> network, Machine machine,
               std::unique_ptr<model::Workspace> workspace)
    : network_(std::move(network)),
      machine_(std::move(machine)),
      workspace_(std::move(workspace)) {}

NamedResult<Runner> Runner::create(std::shared_ptr<const model::Network> network, Machine machine,
                                   const model::WorkspaceShape& shape) {
  auto workspace = network->create_workspace(shape);
  if (!workspace) return NamedError(workspace.error(), "scratch memory of a pass");
  Runner runner(std::move(network), std::move(machine), std::move(*workspace));
  try {
    // Room for every lane now: between prepare and commit nothing may fail for memory.
    runner.ready_.reserve(static_cast<std::size_t>(shape.max_spans));
    runner.ready_index_.reserve(static_cast<std::size_t>(shape.max_spans));
  } catch (const std::bad_alloc&) {
    return NamedError(Error{.code = ErrorCode::kOutOfMemory}, "lanes of a batch");
  }
  return runner;
}

Status Runner::check_size(std::span<const model::BatchSpan> lanes) const {
  std::int64_t n_rows = 0;
  for (const model::BatchSpan& lane : lanes)
    n_rows += static_cast<std::int64_t>(lane.tokens.size());
  const auto n_lanes = static_cast<std::int64_t>(lanes.size());
  const model::WorkspaceShape& room = shape();
  const auto too_many = [](std::int64_t actual, std::int64_t limit) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .actual = static_cast<std::uint64_t>(actual),
                 .expected = static_cast<std::uint64_t>(limit)};
  };
  if (n_lanes > room.max_spans) return too_many(n_lanes, room.max_spans);
  if (n_rows > room.max_rows.value()) return too_many(n_rows, room.max_rows.value());
  return ok();
}

Status Runner::check(const model::BatchSpan& lane) const {
  if (lane.tokens.empty()) return Error{.code = ErrorCode::kEmptyPrefill};
  return model::check_tokens(lane.tokens, network_->config());
}

void Runner::step(std::span<const model::BatchSpan> lanes, std::span<Status> outcomes,
                  model::PassObserver& observer) {
  ready_.clear();
  ready_index_.clear();
  if (const Status fits = check_size(lanes); !fits) {
    std::ranges::fill(outcomes, fits);
    return;
  }
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    outcomes[i] = check(lanes[i]);
    if (!outcomes[i]) continue;
    outcomes[i] =
        lanes[i].sequence->prepare(Tokens(static_cast<std::int64_t>(lanes[i].tokens.size())));
    if (!outcomes[i]) continue;
    ready_.push_back(lanes[i]);
    ready_index_.push_back(i);
  }
  if (ready_.empty()) return;

  Renumbered renumbered(observer, ready_index_);
  Status done =
      network_->forward(ready_, *machine_.kernels, *machine_.pool, *workspace_, renumbered);
  if (done) done = machine_.device->synchronize();
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    state::Sequence& sequence = *ready_[i].sequence;
    Status& outcome = outcomes[ready_index_[i]];
    outcome = done ? sequence.commit(sequence.position(),
                                     Tokens(static_cast<std::int64_t>(ready_[i].tokens.size())))
                   : done;
    if (!outcome) sequence.poison();
  }
}

Status Runner::step(const model::BatchSpan& lane, model::PassObserver& observer) {
  Status outcome;
  step({&lane, 1}, {&outcome, 1}, observer);
  return outcome;
}

}  // namespace kvant::engine
