#include "apps/kvant/opened_model.h"

#include <fmt/format.h>

#include <utility>

#include "apps/kvant/text.h"

namespace kvant::app {

int threads_or_default(int n_threads) { return n_threads > 0 ? n_threads : n_physical_cores(); }

NamedResult<engine::Machine> open_machine(const MachineOptions& options) {
  return engine::create_machine(threads_or_default(options.n_threads), options.kernels);
}

NamedResult<OpenedModel> open_model(const std::string& directory, const MachineOptions& options) {
  auto machine = KVANT_TRY(open_machine(options));
  auto loaded = KVANT_TRY(model::load_model(directory, options.access));
  auto tokenizer = KVANT_TRY(model::Tokenizer::open(directory, loaded->config.vocab_size));
  return OpenedModel{
      .machine = std::move(machine), .model = std::move(loaded), .tokenizer = std::move(tokenizer)};
}

engine::MemoryOptions memory_options(const StateOptions& state) {
  engine::MemoryOptions memory;
  memory.context = state.context;
  memory.keys = state.kv.keys;
  memory.values = state.kv.values;
  memory.chunk = state.chunk;
  memory.memory_limit = state.ram;
  return memory;
}

std::string kv_text(const KvOptions& kv) {
  if (kv.keys == kv.values) return fmt::format("keys and values {}", name_of(kv.keys));
  return fmt::format("keys {}, values {}", name_of(kv.keys), name_of(kv.values));
}

std::string setup_text(const engine::Session& session, const engine::Machine& machine) {
  KvOptions kv;
  for (const auto& component : session.memory_plan().state.geometry.components) {
    if (component.spec.kind == ComponentKind::kKeys) kv.keys = component.spec.codec;
    if (component.spec.kind == ComponentKind::kValues) kv.values = component.spec.codec;
  }
  return fmt::format("context {} of {} positions, {}, {}, {} kernels", session.context().value(),
                     session.model().config.context_length, kv_text(kv),
                     counted(machine.pool->n_threads(), "thread"), machine.kernels->name);
}

}  // namespace kvant::app
