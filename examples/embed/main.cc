// Embedding kvant: load a model, evaluate a prompt, answer, come back to a checkpoint and answer
// again with the same tokens.
//
//   kvant_embed [MODEL_DIRECTORY [PROMPT]]
#include <cstdio>
#include <string>
#include <vector>

#include "kvant/engine/session.h"
#include "kvant/model/loader.h"
#include "kvant/model/tokenizer.h"

namespace {

using kvant::NamedResult;
using kvant::TokenId;
namespace engine = kvant::engine;
namespace model = kvant::model;

constexpr std::int64_t kReplyTokens = 24;

NamedResult<std::vector<TokenId>> reply(engine::Session& session) {
  auto sampler = KVANT_TRY(engine::Sampler::create({}, session.model().config.vocab_size));
  std::vector<TokenId> ids;
  KVANT_TRY(
      session.generate({.max_tokens = kReplyTokens, .stop_tokens = session.model().config.eos_ids},
                       sampler, [&](TokenId id) {
                         ids.push_back(id);
                         return true;
                       }));
  return ids;
}

kvant::NamedStatus run(const std::string& directory, const std::string& prompt) {
  // The model and the thread pool are shared by as many sessions as there are.
  const auto loaded = KVANT_TRY(model::load_model(directory));
  const auto tokenizer = KVANT_TRY(model::Tokenizer::open(directory, loaded->config.vocab_size));
  const auto machine = KVANT_TRY(engine::create_machine(2));

  // Everything is planned, then reserved, before the first token.
  engine::MemoryOptions memory;
  memory.context = kvant::Tokens(1024);
  memory.n_snapshots = 1;
  const auto session = KVANT_TRY(engine::Session::create(loaded, machine, memory));
  std::printf("planned: %lld bytes\n",
              static_cast<long long>(session->memory_plan().total().value()));

  const auto ids = KVANT_TRY(tokenizer.encode(
      prompt, {.special = model::SpecialTokens::kParse, .bos = model::Bos::kOmit}));
  KVANT_TRY(session->append(ids));
  const auto checkpoint = KVANT_TRY(session->checkpoint());
  const auto first = KVANT_TRY(reply(*session));
  const std::string text = KVANT_TRY(tokenizer.decode_text(first, model::SpecialOutput::kSkip));
  std::printf("reply: %s\n", text.c_str());

  KVANT_TRY(session->restore(checkpoint));
  const auto second = KVANT_TRY(reply(*session));
  std::printf("again from the checkpoint: %s\n", first == second ? "the same" : "different");

  // What cannot be done is an error that says what was given and what is possible.
  memory.context = kvant::Tokens(1'000'000'000);
  const auto refused = engine::Session::create(loaded, machine, memory);
  if (!refused) std::printf("refused: %s\n", kvant::describe(refused.error()).c_str());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string directory = argc > 1 ? argv[1] : "models/tinyworld-lfm2";
  const std::string prompt =
      argc > 2 ? argv[2]
               : "<|startoftext|><|im_start|>system\nAnswer from the story.\n"
                 "Box 25 holds a pale key. It belongs to Felix, the brewer of Denholm. The cat "
                 "sleeps in the hall beside the clay box.<|im_end|>\n"
                 "<|im_start|>user\nWhere does Felix live?<|im_end|>\n<|im_start|>assistant\n";
  const auto done = run(directory, prompt);
  if (done) return 0;
  std::fprintf(stderr, "%s\n", kvant::describe(done.error()).c_str());
  return 1;
}
