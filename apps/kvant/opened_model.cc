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
  memory.policy = {.on_full = state.on_full, .keep = state.keep.value_or(Tokens(0))};
  return memory;
}

int fail(Streams& streams, const NamedError& error) {
  const bool usage = error.code() == ErrorCode::kInvalidArgument;
  return usage ? streams.fail_usage(describe(error)) : streams.fail(error);
}

std::string shifts_text(const engine::Session& session) {
  const std::int64_t n = session.figures().n_shifts;
  if (n == 0) return {};
  return fmt::format(
      "the context of {} positions was full {}; older tokens behind the first {} were dropped",
      session.context().value(), counted(n, "time"), session.policy().keep.value());
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
  const engine::ContextPolicy& policy = session.policy();
  const std::string when_full =
      policy.on_full == engine::OnFull::kError
          ? ""
          : fmt::format(" that shift behind the first {}", policy.keep.value());
  return fmt::format("context {} of {} positions{}, {}, {}, {} kernels", session.context().value(),
                     session.model().config.context_length, when_full, kv_text(kv),
                     counted(machine.pool->n_threads(), "thread"), machine.kernels->name);
}

}  // namespace kvant::app
