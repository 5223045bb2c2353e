// What the verbs that run a model do first: threads and kernels, weights, tokenizer.
#pragma once

#include <memory>
#include <string>

#include "apps/kvant/options.h"
#include "apps/kvant/streams.h"
#include "kvant/base/result.h"
#include "kvant/engine/memory_plan.h"
#include "kvant/engine/runner.h"
#include "kvant/engine/session.h"
#include "kvant/model/loader.h"
#include "kvant/model/tokenizer.h"

namespace kvant::app {

// Errors: those of engine::create_machine.
NamedResult<engine::Machine> open_machine(const MachineOptions& options);

struct OpenedModel {
  engine::Machine machine;
  std::shared_ptr<const model::LoadedModel> model;
  model::Tokenizer tokenizer;
};

// Errors: as above; those of load_model and Tokenizer::open.
NamedResult<OpenedModel> open_model(const std::string& directory, const MachineOptions& options);

// The part of a memory plan's options that flags say.
engine::MemoryOptions memory_options(const StateOptions& state);

// Prints an error of a verb that runs a model; returns the exit code. An argument that only the
// model shows to be out of range is an error of use like any other.
int fail(Streams& streams, const NamedError& error);

// One line about a session that dropped tokens, empty if it did not.
std::string shifts_text(const engine::Session& session);

int threads_or_default(int n_threads);

// "context 8192 of 32768 positions (--ctx), keys f16, values f16, 2 threads, avx2 kernels"
std::string setup_text(const engine::Session& session, const engine::Machine& machine);

// "keys f16, values f32", or "keys and values f16".
std::string kv_text(const KvOptions& kv);

}  // namespace kvant::app
