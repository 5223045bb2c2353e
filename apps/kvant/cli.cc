#include "apps/kvant/cli.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/kvant/flags.h"
#include "apps/kvant/text.h"
#include "kvant/engine/memory_plan.h"
#include "kvant/kernels/dispatch.h"

namespace kvant::app {
namespace {

constexpr std::int64_t kMaxThreads = 1024;
constexpr const char* kNumericsFile = "tests/golden/numerics.json";

// --kv sets both sides; it and a flag for one side exclude one another.
void add_kv(CLI::App& verb, KvOptions& kv) {
  auto* both =
      add_kind(verb, {"--kv", "How keys and values are stored: f32, f16 or bf16"},
               [&kv](codec::Kind kind) { kv = {.keys = kind, .values = kind, .given = true}; });
  both->default_str(std::string(name_of(kv.keys)));
  add_kind(verb, {"--kv-k", "The same for keys alone"}, [&kv](codec::Kind kind) {
    kv.keys = kind;
    kv.given = true;
  })->excludes(both);
  add_kind(verb, {"--kv-v", "The same for values alone"}, [&kv](codec::Kind kind) {
    kv.values = kind;
    kv.given = true;
  })->excludes(both);
}

CLI::Option* add_threads(CLI::App& verb, int& n_threads) {
  return add_whole(verb, {"-t,--threads", "Threads; default: the physical cores"},
                   {.least = 1, .most = kMaxThreads},
                   [&n_threads](std::int64_t n) { n_threads = static_cast<int>(n); });
}

void add_machine(CLI::App& verb, MachineOptions& machine) {
  add_threads(verb, machine.n_threads);
  add_text(verb, {"--kernels", "Which kernels to use; all give the same results"}, machine.kernels)
      ->check([](const std::string& name) -> Complaint {
        if (name == "auto") return {};
        for (const kernels::Target target : kernels::all_targets()) {
          if (name == kernels::name_of(target)) return {};
        }
        return fmt::format("'{}' is none of auto, ref, avx2, avx512", name);
      })
      ->default_str("auto")
      ->type_name("NAME");
  add_switch(verb, {"--no-map", "Copy the weights into memory instead of mapping their file"},
             [&machine] { machine.access = model::FileAccess::kRead; });
}

void add_context(CLI::App& verb, StateOptions& state) {
  add_whole(verb, {"--ctx", "Positions of the context; default: the model's, at most 8192"}, {},
            [&state](std::int64_t n) { state.context = Tokens(n); });
  add_whole(verb, {"--chunk", "Tokens of a prompt evaluated at a time"},
            {.least = 1, .most = 1 << 20}, [&state](std::int64_t n) { state.chunk = Tokens(n); })
      ->default_str("512");
  add_bytes(verb, {"--ram", "Memory that may be planned; default: the machine's"}, state.ram);
  verb.add_option_function<std::string>(
          "--on-full",
          [&state](const std::string& text) {
            state.on_full = text == "shift" ? engine::OnFull::kShift : engine::OnFull::kError;
          },
          "When the context is full: error, or shift, which drops the older half of the tokens"
          " behind --keep (more if a prompt needs it) and goes on")
      ->check(CLI::IsMember({"error", "shift"}))
      ->default_str("error")
      ->type_name("WHAT");
  add_whole(verb,
            {"--keep",
             "First tokens that a shift never drops, fewer than --ctx; default: 0, in chat those"
             " of the system message"},
            {}, [&state](std::int64_t n) { state.keep = Tokens(n); });
  add_kv(verb, state.kv);
}

void add_sampler(CLI::App& verb, engine::SamplerOptions& sampler) {
  add_real(verb, {"--temp", "Temperature; 0: always the most likely token"}, sampler.temperature)
      ->default_str("0");
  add_whole(verb, {"--top-k", "Draw from the N most likely tokens; 0: from all"}, {},
            [&sampler](std::int64_t n) { sampler.top_k = n; })
      ->default_str("0");
  add_real(verb, {"--top-p", "Draw from the fewest tokens of this probability"}, sampler.top_p)
      ->default_str("1");
  add_real(verb, {"--min-p", "Drop tokens less likely than this part of the likeliest"},
           sampler.min_p)
      ->default_str("0");
  add_real(verb, {"--repeat-penalty", "Divides the logits of recent tokens; 1: none"},
           sampler.repetition_penalty)
      ->default_str("1");
  add_whole(verb, {"--repeat-last", "How many tokens are recent"}, {}, [&sampler](std::int64_t n) {
    sampler.penalty_window = n;
  })->default_str("64");
  add_whole(verb, {"--seed", "The same seed draws the same tokens"}, {},
            [&sampler](std::int64_t n) { sampler.seed = static_cast<std::uint64_t>(n); })
      ->default_str("0");
}

void add_model(CLI::App& verb, std::string& model) {
  add_path(verb, {"-m,--model", "Model directory: config.json, *.safetensors, tokenizer.json"},
           model)
      ->required()
      ->type_name("DIR");
}

void add_reply(CLI::App& verb, std::vector<std::string>& stops, std::int64_t& max_tokens) {
  verb.add_option(
          "--stop",
          [&stops](const CLI::results_t& results) {
            stops = results;
            return true;
          },
          "Text that ends a reply and is not printed; may be given several times")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("TEXT")
      ->check([](const std::string& text) -> Complaint {
        return text.empty() ? "an empty text would end every reply at once" : "";
      });
  const std::string standard = fmt::format("{}", max_tokens);
  add_whole(verb, {"-n,--max-tokens", "Most tokens of a reply"}, {}, [&max_tokens](std::int64_t n) {
    max_tokens = n;
  })->default_str(standard);
}

void add_json(CLI::App& verb, OutputForm& output) {
  add_switch(verb, {"--json", "Print JSON"}, [&output] { output = OutputForm::kJson; });
}

void set_up(CLI::App& verb, RunOptions& run) {
  add_model(verb, run.model);
  auto* prompt = add_text(verb, {"-p,--prompt", "The prompt"}, run.prompt)->type_name("TEXT");
  add_text(verb, {"-f,--file", "File with the prompt; -: standard input"}, run.prompt_file)
      ->type_name("FILE")
      ->excludes(prompt);
  auto* chat = add_switch(verb, {"--chat", "The prompt is a user's message to a chat model"},
                          [&run] { run.form = PromptForm::kChat; });
  add_switch(verb, {"--parse-special", "Control tokens are spelled out in the prompt"}, [&run] {
    run.form = PromptForm::kRawSpecials;
  })->excludes(chat);
  auto* system = add_text(verb, {"--system", "System message of a chat"}, run.system);
  system->type_name("TEXT")->needs(chat);
  add_path(verb, {"--load-state", "Go on from what --save-state wrote; the prompt may be left out"},
           run.load_state)
      ->type_name("FILE")
      ->excludes(system);
  add_path(verb, {"--save-state", "Write what the model remembers at the end"}, run.save_state)
      ->type_name("FILE");
  add_reply(verb, run.stops, run.max_tokens);
  add_sampler(verb, run.sampler);
  add_context(verb, run.state);
  add_machine(verb, run.machine);
  add_switch(verb, {"--stats", "Print speed and memory to standard error"},
             [&run] { run.stats = true; });
  add_json(verb, run.output);
}

void set_up(CLI::App& verb, ChatOptions& chat) {
  add_model(verb, chat.model);
  add_text(verb, {"--system", "System message"}, chat.system)->type_name("TEXT");
  add_text(verb, {"--history", "File that keeps the lines typed"}, chat.history_file)
      ->type_name("FILE");
  add_reply(verb, chat.stops, chat.max_tokens);
  add_sampler(verb, chat.sampler);
  add_context(verb, chat.state);
  add_machine(verb, chat.machine);
  add_switch(verb, {"--stats", "Print speed after every reply"}, [&chat] { chat.stats = true; });
}

void set_up(CLI::App& verb, PlanOptions& plan) {
  add_path(verb, {"MODEL", "Model directory or config.json"}, plan.model)->required();
  add_context(verb, plan.state);
  add_bytes(verb,
            {"--budget", "Plan the longest context that fits this, or with --ctx most sequences"},
            plan.budget);
  add_whole(verb, {"--seqs", "Sequences that fill their contexts at once"},
            {.least = 1, .most = engine::kMaxSequences},
            [&plan](std::int64_t n) { plan.n_sequences = n; })
      ->default_str("1");
  add_whole(verb, {"--rollback", "Positions that can be taken back exactly, for speculation"},
            {.least = 0, .most = 1 << 20}, [&plan](std::int64_t n) { plan.rollback = Tokens(n); })
      ->default_str("0");
  add_threads(verb, plan.n_threads);
  add_switch(verb, {"--all", "A line for every layer"}, [&plan] { plan.every_layer = true; });
  add_json(verb, plan.output);
}

struct RouteName {
  std::string_view name;
  engine::Route route;
};
constexpr std::array kRoutes = {
    RouteName{"oneshot", engine::Route::kOneshot}, RouteName{"chunks", engine::Route::kChunks},
    RouteName{"decode", engine::Route::kDecode}, RouteName{"batch", engine::Route::kBatch},
    RouteName{"snapshot", engine::Route::kSnapshot}};

const RouteName* find_route(std::string_view name) {
  const auto* found = std::ranges::find(kRoutes, name, &RouteName::name);
  return found == kRoutes.end() ? nullptr : found;
}

void set_up(CLI::App& verb, VerifyOptions& verify) {
  add_path(verb, {"DIR", "Directory of golden.safetensors, or the file"}, verify.golden)
      ->required();
  add_path(verb, {"-m,--model", "Model directory; default: DIR"}, verify.model)->type_name("DIR");
  verb.add_option(
          "--via",
          [&verify](const CLI::results_t& names) {
            verify.routes.clear();
            for (const std::string& name : names) {
              verify.routes.push_back(find_route(name)->route);
            }
            return true;
          },
          "Routes to take: oneshot,chunks,decode,batch,snapshot; default: all")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',')
      ->type_name("ROUTES")
      ->check([](const std::string& name) -> Complaint {
        return find_route(name) != nullptr
                   ? Complaint{}
                   : fmt::format("'{}' is none of oneshot, chunks, decode, batch, snapshot", name);
      });
  add_kv(verb, verify.kv);
  add_machine(verb, verify.machine);
  add_json(verb, verify.output);
}

void set_up(CLI::App& verb, EvalOptions& eval) {
  add_model(verb, eval.model);
  auto* text = add_text(verb, {"--text", "Perplexity of this text"}, eval.text_file);
  text->type_name("FILE");
  auto* recall =
      add_text(verb, {"--recall", "Exact answers to this recall.jsonl"}, eval.recall_file);
  recall->type_name("FILE")->excludes(text);
  add_whole(verb, {"--window", "Tokens of text evaluated from an empty state"}, {.least = 2},
            [&eval](std::int64_t n) { eval.window = Tokens(n); })
      ->default_str("1024")
      ->excludes(recall);
  add_kv(verb, eval.kv);
  add_machine(verb, eval.machine);
  add_json(verb, eval.output);
}

void set_up(CLI::App& verb, InspectOptions& inspect) {
  add_path(verb, {"FILE", "A safetensors file, a state file or a model directory"}, inspect.path)
      ->required();
  add_json(verb, inspect.output);
}

void set_up(CLI::App& verb, BenchOptions& bench) {
  verb.add_option_function<std::vector<std::string>>(
          "WHAT",
          [&bench](const std::vector<std::string>& words) {
            for (const std::string& word : words) {
              (word == "state"    ? bench.state
               : word == "decode" ? bench.decode
                                  : bench.bandwidth) = true;
            }
          },
          "What to measure: decode, bandwidth, state (the state engine by itself)")
      ->check(CLI::IsMember({"decode", "bandwidth", "state"}));
  add_text(verb,
           {"--check-numerics",
            "Compare the kernels' results with this file of digests; the default is looked for"
            " below the working directory, and lies in the source tree"},
           bench.check_numerics)
      ->expected(0, 1)
      ->default_str(kNumericsFile)
      ->type_name("FILE");
  add_text(verb, {"--write-numerics", "Write the digests of the ref kernels"}, bench.write_numerics)
      ->type_name("FILE");
  add_switch(verb, {"--bandwidth", "Sequential read of a mapped file"},
             [&bench] { bench.bandwidth = true; });
  auto* decode = add_switch(verb, {"--decode", "Speed of prompts and replies"},
                            [&bench] { bench.decode = true; });
  add_path(verb, {"-m,--model", "Model for --decode; default: random weights of a 350M shape"},
           bench.model)
      ->type_name("DIR")
      ->needs(decode);
  add_text(verb, {"--dir", "Where to put files of up to 700 MB, removed afterwards"},
           bench.scratch_dir)
      ->default_str(".")
      ->type_name("DIR");
  add_whole(verb, {"--rounds", "Times each figure is taken"}, {.least = 1, .most = 1000},
            [&bench](std::int64_t n) { bench.n_rounds = n; })
      ->default_str("5");
  add_machine(verb, bench.machine);
  add_json(verb, bench.output);
}

Complaint first_of(const Complaint& one, const Complaint& other) {
  return one.empty() ? other : one;
}

// What no single flag can say.
Complaint check(const StateOptions& state) {
  const bool shifts = state.on_full == engine::OnFull::kShift;
  if (!shifts || !state.keep || !state.context || *state.keep < *state.context) return {};
  return fmt::format("--keep {} leaves nothing to drop of a --ctx of {}", state.keep->value(),
                     state.context->value());
}
Complaint check(const engine::SamplerOptions& sampler) {
  const auto tried = engine::Sampler::create(sampler, 1);
  return tried ? Complaint{} : Complaint(tried.error().detail());
}
Complaint check(const RunOptions& run) {
  const bool may_start = run.prompt || run.prompt_file || run.load_state;
  if (!may_start) return "a prompt is needed: -p TEXT or -f FILE";
  return first_of(check(run.state), check(run.sampler));
}
Complaint check(const ChatOptions& chat) {
  return first_of(check(chat.state), check(chat.sampler));
}
Complaint check(const PlanOptions& plan) { return check(plan.state); }
Complaint check(const EvalOptions& eval) {
  return eval.text_file || eval.recall_file ? "" : "one of --text FILE and --recall FILE is needed";
}
Complaint check(const BenchOptions& bench) {
  return bench.check_numerics || bench.write_numerics || bench.bandwidth || bench.decode ||
                 bench.state
             ? ""
             : "what to measure? state, decode, bandwidth, --check-numerics, --write-numerics";
}
template <class Options>
Complaint check(const Options&) {
  return {};
}

// All verbs, each with its options.
class Parser {
 public:
  Parser() : root_("Runs hybrid-attention language models and manages their state.", "kvant") {
    root_.require_subcommand(1);
    root_.set_version_flag("--version",
                           fmt::format("kvant {} (numerics {}, kernels {})", KVANT_VERSION,
                                       kernels::kNumericsVersion, kernels::best_table().name));
    add("run", "Continue a text, or answer one message", run_);
    add("chat", "Talk with a model in a terminal", chat_);
    add("plan", "The exact memory that a context needs", plan_);
    add("verify", "Compare a model with its golden file, by every route", verify_);
    add("eval", "Perplexity of a text, or recall of facts at a distance", eval_);
    add("inspect", "What is in a safetensors file, a state file or a model directory", inspect_);
    add("bench", "Measure this machine and check its arithmetic", bench_);
  }

  std::variant<Command, HelpText, UsageError> parse(std::vector<std::string> arguments) {
    // The root's own flags take no values, so the first word is the verb; CLI11 would only say
    // that there is none.
    const auto is_word = [](const std::string& text) { return !text.starts_with('-'); };
    const auto verb = std::ranges::find_if(arguments, is_word);
    if (verb != arguments.end() && std::ranges::find(verbs_, *verb) == verbs_.end()) {
      return UsageError{
          complain(fmt::format("'{}' is none of {}", *verb, fmt::join(verbs_, ", ")))};
    }
    std::ranges::reverse(arguments);  // as CLI11 wants them
    try {
      root_.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
      return HelpText{root_.help()};
    } catch (const CLI::CallForVersion& version) {
      return HelpText{std::string(version.what()) + "\n"};
    } catch (const CLI::ParseError& error) {
      return UsageError{complain(error.what())};
    }
    const Complaint complaint =
        std::visit([](const auto& options) { return check(options); }, command_.options);
    if (!complaint.empty()) return UsageError{complain(complaint)};
    return command_;
  }

 private:
  template <class Options>
  void add(const std::string& name, const std::string& about, Options& options) {
    CLI::App& verb = *root_.add_subcommand(name, about);
    verbs_.push_back(name);
    set_up(verb, options);
    verb.add_flag_callback(
        "-v,--verbose", [this] { command_.log_level = LogLevel::kInfo; }, "Say more");
    verb.callback([this, &options] { command_.options = options; });
  }

  std::string complain(std::string_view what) {
    const auto verbs = root_.get_subcommands();
    return fmt::format("{} (see kvant {}--help)", what,
                       verbs.empty() ? "" : verbs.front()->get_name() + " ");
  }

  CLI::App root_;
  std::vector<std::string> verbs_;
  Command command_;
  RunOptions run_;
  ChatOptions chat_;
  PlanOptions plan_;
  VerifyOptions verify_;
  EvalOptions eval_;
  InspectOptions inspect_;
  BenchOptions bench_;
};

}  // namespace

std::variant<Command, HelpText, UsageError> parse_command_line(std::span<char* const> arguments) {
  return Parser().parse({arguments.begin(), arguments.end()});
}

}  // namespace kvant::app
