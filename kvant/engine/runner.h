// One step of a batch, as a transaction over the states it touches.
//
//   step(lanes):  check tokens -> prepare each lane's state -> forward -> synchronize -> commit
//   each
//
// A lane whose tokens or state refuse is left out and says why; the others run. If anything fails
// between prepare and commit, the lanes that were prepared are poisoned and say so.
//
// A Runner owns the scratch memory of its passes, so it serves one step at a time; sessions on
// several threads have a Runner each and share the network and the thread pool.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kvant/base/thread_pool.h"
#include "kvant/model/network.h"
#include "kvant/state/sequence.h"
#include "kvant/tensor/device.h"

namespace kvant::engine {

// What all sessions of a process share.
struct Machine {
  std::shared_ptr<ThreadPool> pool;
  const kernels::KernelTable* kernels = nullptr;
  tensor::Device* device = nullptr;
};

// A pool of `n_threads` and the best kernels of this processor (or those named), on the host.
// Errors: kInvalidArgument, kThreadFailed, kTargetUnavailable.
NamedResult<Machine> create_machine(int n_threads, std::string_view kernel_target = "");

class Runner {
 public:
  // Errors: kOutOfMemory.
  static NamedResult<Runner> create(std::shared_ptr<const model::Network> network, Machine machine,
                                    const model::WorkspaceShape& shape);

  // Shapes: outcomes [lanes.size()].
  // Ensures: outcomes[i] ok: lane i's state has advanced by its tokens. Not ok: either unchanged
  // (more lanes or rows than the workspace has, for all lanes; token out of range, empty span,
  // state full or poisoned, pool exhausted, for that one) or poisoned (a failure after prepare).
  // Cost: one forward pass; allocates nothing.
  void step(std::span<const model::BatchSpan> lanes, std::span<Status> outcomes,
            model::PassObserver& observer);

  // step for one sequence.
  Status step(const model::BatchSpan& lane, model::PassObserver& observer);

  const model::Network& network() const { return *network_; }
  const model::WorkspaceShape& shape() const { return workspace_->shape(); }
  Bytes workspace_bytes() const { return workspace_->bytes(); }

 private:
  Runner(std::shared_ptr<const model::Network> network, Machine machine,
         std::unique_ptr<model::Workspace> workspace);
  Status check(const model::BatchSpan& lane) const;
  Status check_size(std::span<const model::BatchSpan> lanes) const;

  std::shared_ptr<const model::Network> network_;
  Machine machine_;
  std::unique_ptr<model::Workspace> workspace_;
  std::vector<model::BatchSpan> ready_;   // lanes of the running step that were prepared
  std::vector<std::size_t> ready_index_;  // their places among the step's lanes
};

}  // namespace kvant::engine
