// kvant run: the main job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/program.h"

namespace kvant::e2e {
namespace {

using testing::HasSubstr;

const char* const kNotHere = "cannot run the kernel target";

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The story of the demo, whose question is answered by one fact of it.
Arguments story() {
  return {"run", "-m", tinyworld(), "-f", tinyworld() + "/demo-story.txt", "--parse-special"};
}

Arguments short_prompt() {
  return {"run", "-m", tinyworld(), "-p", "Hana the baker lives in", "-n", "12"};
}

// A question that takes few tokens, for tests that ask it often.
Arguments short_question() {
  return {"run",
          "-m",
          tinyworld(),
          "--chat",
          "--system",
          "Answer from the story.\nHana the baker lives in Elmhurst and keeps a red key in box 12.",
          "-p",
          "Where does Hana live?"};
}

std::string output_of(const Arguments& arguments) {
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.out;
}

TEST(Run, AnswersAQuestionAboutAStory) {
  EXPECT_EQ(output_of(story()), read_whole(tinyworld() + "/demo-answer.txt"));
}

TEST(Run, AnswersTheSameQuestionFromStandardInput) {
  const Outcome outcome = run({"run", "-m", tinyworld(), "-f", "-", "--parse-special"},
                              read_whole(tinyworld() + "/demo-story.txt"));
  EXPECT_EQ(outcome.out, read_whole(tinyworld() + "/demo-answer.txt"));
}

TEST(Run, ThreadsChunksKernelsAndMappingDoNotChangeTheText) {
  const Arguments base = short_prompt() + Arguments{"--temp", "1", "--seed", "11"};
  const std::string expected = output_of(base);
  for (const Arguments& flags : {Arguments{"-t", "1"},
                                 {"-t", "2"},
                                 {"-t", "3"},
                                 {"--chunk", "1"},
                                 {"--chunk", "3"},
                                 {"--no-map"},
                                 {"--ctx", "64"},
                                 {"--kernels", "ref"}}) {
    EXPECT_EQ(output_of(base + flags), expected) << flags.back();
  }
  for (const char* target : {"avx2", "avx512"}) {
    const Outcome outcome = run(base + Arguments{"--kernels", target});
    if (outcome.exit_code == 1) {
      EXPECT_THAT(outcome.err, HasSubstr(kNotHere));
    } else {
      EXPECT_EQ(outcome.out, expected) << target;
    }
  }
}

TEST(Run, AnEmptyReplyIsExplained) {
  const Outcome outcome = run({"run", "-m", tinyworld(), "-p", "Where is the cat?"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "\n");
  EXPECT_THAT(outcome.err, HasSubstr("wants --chat"));
}

TEST(Run, ASeedRepeatsItsTextAndAnotherGivesAnother) {
  const Arguments base = short_prompt() + Arguments{"--temp", "1.5", "--top-p", "0.95"};
  const std::string first = output_of(base + Arguments{"--seed", "1"});
  EXPECT_EQ(output_of(base + Arguments{"--seed", "1"}), first);
  EXPECT_NE(output_of(base + Arguments{"--seed", "2"}), first);
}

TEST(Run, NoPartOfAStopStringIsPrinted) {
  const std::string answer = output_of(short_question());
  ASSERT_GE(answer.size(), 20U) << answer;
  // Every third stop string of four characters of the answer, most of which span tokens.
  for (std::size_t at = 0; at + 5 <= answer.size(); at += 3) {
    const std::string stop = answer.substr(at, 4);
    const std::string expected = answer.substr(0, answer.find(stop));
    EXPECT_EQ(output_of(short_question() + Arguments{"--stop", "never said", "--stop", stop}),
              expected + "\n")
        << stop;
  }
}

TEST(Run, StopStringsAreTakenAsTheyAre) {
  // Words that a parser of flags may find special.
  const std::string answer = output_of(short_question());
  for (const char* stop : {"{}", "[a,b]", "%%", "-x", "--"}) {
    EXPECT_EQ(output_of(short_question() + Arguments{"--stop", stop}), answer) << stop;
  }
}

TEST(Run, AChatMessageIsWrappedInTheModelsFormat) {
  const std::string facts = "Answer from the story.\nHana the baker lives in Elmhurst.";
  const std::string question = "Where does Hana live?";
  const std::string spelled = "<|startoftext|><|im_start|>system\n" + facts +
                              "<|im_end|>\n<|im_start|>user\n" + question +
                              "<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(
      output_of({"run", "-m", tinyworld(), "--chat", "--system", facts, "-p", question, "--json",
                 "-n", "20"})
          .substr(0, 200),
      output_of({"run", "-m", tinyworld(), "--parse-special", "-p", spelled, "--json", "-n", "20"})
          .substr(0, 200));
}

TEST(Run, ControlTokensInAPromptAreTextUnlessAskedFor) {
  const Arguments base = {"run", "-m", tinyworld(), "-p", "<|im_end|>", "-n", "0", "--json"};
  const auto as_text = integer_at(output_of(base), "/figures/prefill_tokens");
  const auto parsed =
      integer_at(output_of(base + Arguments{"--parse-special"}), "/figures/prefill_tokens");
  EXPECT_GE(as_text, 4);
  EXPECT_LE(parsed, 2);  // the token, after a beginning token if the model wants one
}

TEST(Run, InvalidUtf8InThePromptIsAcceptedByteByByte) {
  const Outcome outcome =
      run({"run", "-m", tinyworld(), "-p", "\xFF\xC3(\xE2\x82", "-n", "2", "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_GE(integer_at(outcome.out, "/figures/prefill_tokens"), 5);
}

TEST(Run, APromptMayLookLikeAFlag) {
  EXPECT_EQ(run({"run", "-m", tinyworld(), "-p", "--help", "-n", "1"}).exit_code, 0);
  EXPECT_EQ(run({"run", "-m", tinyworld(), "-p", "-", "-n", "1"}).exit_code, 0);
}

TEST(Run, JsonSaysWhatWasSaidAndWhyItEnded) {
  const std::string answer = read_whole(tinyworld() + "/demo-answer.txt");
  const std::string text = answer.substr(0, answer.find('\n'));
  const std::string whole = output_of(story() + Arguments{"--json"});
  EXPECT_EQ(json_at(whole, "/text"), '"' + text + '"');
  EXPECT_EQ(json_at(whole, "/finish_reason"), "\"stop\"");
  EXPECT_EQ(json_at(whole, "/stop"), "null");
  EXPECT_GT(integer_at(whole, "/figures/prefill_tokens"), 500);

  const std::string cut = output_of(story() + Arguments{"--json", "-n", "2"});
  EXPECT_EQ(json_at(cut, "/finish_reason"), "\"length\"");
  EXPECT_EQ(json_at(cut, "/tokens/1").find('"'), std::string::npos);
  EXPECT_EQ(json_at(cut, "/tokens/2"), "(absent)");
  EXPECT_EQ(integer_at(cut, "/figures/decode_tokens"), 2);
}

TEST(Run, AFullContextIsAFailureThatKeepsTheText) {
  const Outcome outcome = run({"run", "-m", tinyworld(), "-p", "Hana the baker lives in", "--ctx",
                               "16", "-n", "100", "--temp", "1", "--seed", "3"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_GT(outcome.out.size(), 4U);
  EXPECT_THAT(outcome.err, HasSubstr("the context of 16 positions is full"));
}

TEST(Run, StatsNameTheKindOfRowsTheContextAndTheMemory) {
  const Outcome plain = run(short_prompt() + Arguments{"--stats"});
  EXPECT_THAT(plain.err, HasSubstr("context 8192 of 32768 positions"));
  EXPECT_THAT(plain.err, HasSubstr("keys and values f16"));
  EXPECT_THAT(plain.err, HasSubstr("tokens/s"));
  EXPECT_THAT(plain.err, HasSubstr("peak RSS"));
  const Outcome mixed = run(short_prompt() + Arguments{"--kv-k", "f32"});
  EXPECT_THAT(mixed.err, HasSubstr("keys f32, values f16"));
}

TEST(Run, AllocatedBytesStayWithinThePlan) {
  const std::string out = output_of(story() + Arguments{"--json"});
  EXPECT_LE(integer_at(out, "/figures/allocated_bytes"), integer_at(out, "/figures/planned_bytes"));
  EXPECT_GT(integer_at(out, "/figures/state_bytes"), 0);
}

TEST(Help, EveryVerbDescribesItself) {
  EXPECT_THAT(run({"--help"}).out, HasSubstr("inspect"));
  for (const char* verb : {"run", "chat", "plan", "verify", "eval", "inspect", "bench"}) {
    const Outcome outcome = run({verb, "--help"});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("--help"));
    EXPECT_EQ(outcome.err, "");
  }
  EXPECT_THAT(run({"run", "--help"}).out, HasSubstr("--repeat-penalty"));
}

TEST(Help, TheVersionNamesTheNumerics) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, testing::StartsWith("kvant "));
  EXPECT_THAT(outcome.out, HasSubstr("numerics cpu-"));
}

}  // namespace
}  // namespace kvant::e2e
