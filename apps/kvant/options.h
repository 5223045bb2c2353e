// What the flags of each verb say, as plain values. cli.cc fills these; the verbs read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kvant/base/units.h"
#include "kvant/codec/kind.h"
#include "kvant/engine/context_policy.h"
#include "kvant/engine/sampler.h"
#include "kvant/engine/verify.h"
#include "kvant/model/safetensors.h"

namespace kvant::app {

enum class OutputForm : std::uint8_t { kText, kJson };

// Which kinds of rows a verb stores when no flag says so.
struct KvOptions {
  codec::Kind keys = codec::Kind::kF16;
  codec::Kind values = codec::Kind::kF16;
  bool given = false;  // a flag said so
};

// Flags of every verb that runs a model.
struct MachineOptions {
  int n_threads = 0;             // 0: as many as there are physical cores
  std::string kernels = "auto";  // or the name of a target
  model::FileAccess access = model::FileAccess::kMap;
};

struct StateOptions {
  KvOptions kv;
  std::optional<Tokens> context;  // none: min(model, engine::kDefaultContext)
  Tokens chunk{512};              // tokens of a prompt evaluated at a time
  std::optional<Bytes> ram;       // none: the machine's memory
  engine::OnFull on_full = engine::OnFull::kError;
  std::optional<Tokens> keep;  // none: 0, in a chat those of the system message
};

enum class PromptForm : std::uint8_t {
  kRaw,          // text; what looks like a control token is text too
  kRawSpecials,  // text in which control tokens are spelled out
  kChat,         // one user's message in the model's chat format
};

struct RunOptions {
  std::string model;
  MachineOptions machine;
  StateOptions state;
  engine::SamplerOptions sampler;
  std::optional<std::string> prompt;       // one of these two
  std::optional<std::string> prompt_file;  // "-": standard input
  std::optional<std::string> load_state;   // goes on from this file; then no prompt is needed
  std::optional<std::string> save_state;
  PromptForm form = PromptForm::kRaw;
  std::optional<std::string> system;  // a chat's first message
  std::vector<std::string> stops;
  std::int64_t max_tokens = 256;
  bool stats = false;
  OutputForm output = OutputForm::kText;
};

struct ChatOptions {
  std::string model;
  MachineOptions machine;
  StateOptions state;
  engine::SamplerOptions sampler;
  std::optional<std::string> system;
  std::optional<std::string> history_file;
  std::vector<std::string> stops;
  std::int64_t max_tokens = 1024;  // of one reply
  bool stats = false;
};

struct PlanOptions {
  std::string model;  // a directory or a config.json
  StateOptions state;
  std::optional<Bytes> budget;
  std::optional<std::int64_t> n_sequences;  // none: 1, or the most with a budget and a context
  Tokens rollback{0};                       // last positions that can be taken back
  int n_threads = 0;
  bool every_layer = false;  // else layers of one shape share a line
  OutputForm output = OutputForm::kText;
};

struct VerifyOptions {
  std::string golden;                // a directory or a golden.safetensors
  std::optional<std::string> model;  // none: the directory of the golden file
  MachineOptions machine;
  KvOptions kv{.keys = codec::Kind::kF32, .values = codec::Kind::kF32};
  std::vector<engine::Route> routes = engine::VerifyOptions{}.routes;
  OutputForm output = OutputForm::kText;
};

struct EvalOptions {
  std::string model;
  MachineOptions machine;
  KvOptions kv{.keys = codec::Kind::kF32, .values = codec::Kind::kF32};
  std::optional<std::string> text_file;  // one of these two
  std::optional<std::string> recall_file;
  Tokens window{1024};
  OutputForm output = OutputForm::kText;
};

struct InspectOptions {
  std::string path;
  OutputForm output = OutputForm::kText;
};

struct BenchOptions {
  MachineOptions machine;
  std::optional<std::string> check_numerics;  // digests to compare with
  std::optional<std::string> write_numerics;  // where to write digests
  bool bandwidth = false;
  bool decode = false;
  bool state = false;
  std::optional<std::string> model;  // for decode; none: random weights of a 350M shape
  std::string scratch_dir = ".";     // for files of hundreds of megabytes, removed afterwards
  std::int64_t n_rounds = 5;
  OutputForm output = OutputForm::kText;
};

using VerbOptions = std::variant<RunOptions, ChatOptions, PlanOptions, VerifyOptions, EvalOptions,
                                 InspectOptions, BenchOptions>;

}  // namespace kvant::app
