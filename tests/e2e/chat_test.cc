// kvant chat over a pipe: each line of standard input is a message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/program.h"

namespace kvant::e2e {
namespace {

using testing::HasSubstr;

const std::string kFacts =
    "Answer from the story.\n"
    "Hana the baker lives in Elmhurst and keeps a red key in box 12. The box is made of oak and "
    "stands in the hall. Omar the miller lives in Dunwick and keeps a blue map in box 77.";

Arguments chat_with_facts() { return {"chat", "-m", tinyworld(), "--system", kFacts}; }

// What the model answers to a whole conversation, spelled out.
std::string answer_to(const std::string& conversation) {
  return run({"run", "-m", tinyworld(), "--parse-special", "-p", conversation}).out;
}

TEST(Chat, TheSecondTurnKnowsTheFirst) {
  const std::string start = "<|startoftext|><|im_start|>system\n" + kFacts +
                            "<|im_end|>\n<|im_start|>user\nWhere does Hana live?<|im_end|>\n"
                            "<|im_start|>assistant\n";
  const std::string first = answer_to(start);
  const std::string second = answer_to(start + first.substr(0, first.size() - 1) +
                                       "<|im_end|>\n<|im_start|>user\nWhat does Omar do?"
                                       "<|im_end|>\n<|im_start|>assistant\n");
  const Outcome outcome = run(chat_with_facts(), "Where does Hana live?\nWhat does Omar do?\n");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, first + second);
}

TEST(Chat, ResetForgetsTheConversation) {
  const std::string once = run(chat_with_facts(), "Where does Hana live?\n").out;
  const std::string twice =
      run(chat_with_facts(), "Where does Hana live?\n/reset\nWhere does Hana live?\n").out;
  EXPECT_EQ(twice, once + once);
}

TEST(Chat, AMessageThatDoesNotFitLeavesTheConversationUsable) {
  Arguments arguments = chat_with_facts();
  arguments.insert(arguments.end(), {"--ctx", "256"});
  const std::string once = run(arguments, "Where does Hana live?\n").out;
  std::string long_message;
  for (int i = 0; i < 300; ++i) long_message += " box";
  const Outcome outcome = run(arguments, long_message + "\nWhere does Hana live?\n");
  EXPECT_EQ(outcome.exit_code, 1) << "a script must hear of the turn that failed";
  EXPECT_THAT(outcome.err, HasSubstr("the context holds 256"));
  EXPECT_EQ(outcome.out, once);
}

TEST(Chat, CommandsAreNotMessages) {
  const Outcome outcome = run(chat_with_facts(), "/help\n/stats\n/nonsense\n\n/quit\nWho?\n");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("/reset"));
  EXPECT_THAT(outcome.err, HasSubstr("0 of 8192 positions used"));
  EXPECT_THAT(outcome.err, HasSubstr("unknown command /nonsense"));
}

TEST(Chat, TheLastLineNeedsNoNewline) {
  EXPECT_EQ(run(chat_with_facts(), "Where does Hana live?").out,
            run(chat_with_facts(), "Where does Hana live?\n").out);
}

TEST(Chat, ControlCStopsTheReplyAndNotTheProgram) {
  // At this temperature the seed draws 2441 tokens before one that ends the reply, on every
  // machine, so the signal finds the reply running.
  Conversation chat(
      {"chat", "-m", tinyworld(), "--temp", "50", "--seed", "13", "--ctx", "32768", "-n", "30000"});
  chat.type("Tell me everything.\n");
  chat.read_out_until(" ");
  chat.interrupt();
  chat.read_out_until("\n");
  chat.type("/stats\n/quit\n");
  const Outcome outcome = chat.finish();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("positions used"));
}

}  // namespace
}  // namespace kvant::e2e
