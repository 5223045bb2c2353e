// What run, chat and plan do about a full context.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/program.h"

namespace kvant::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Draws some hundred tokens of story before one that ends it.
Arguments story() {
  return {"run",    "-m", tinyworld(), "-p", "Hana the baker lives in", "-n", "400",
          "--temp", "1",  "--seed",    "3"};
}

Arguments in_64_positions() { return story() + Arguments{"--ctx", "64"}; }

Arguments shifting() { return in_64_positions() + Arguments{"--on-full", "shift", "--keep", "4"}; }

TEST(Shift, AReplyGoesOnBeyondTheContext) {
  const Outcome outcome = run(shifting() + Arguments{"--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(json_at(outcome.out, "/finish_reason"), "\"stop\"");
  EXPECT_GT(integer_at(outcome.out, "/figures/decode_tokens"), 80);
  EXPECT_GE(integer_at(outcome.out, "/figures/shifts"), 2);
  EXPECT_EQ(integer_at(outcome.out, "/figures/rebuilds"), 0);
  EXPECT_EQ(json_at(outcome.out, "/figures/lineage"), "\"derived\"");
  EXPECT_LE(integer_at(outcome.out, "/figures/allocated_bytes"),
            integer_at(outcome.out, "/figures/planned_bytes"));
  EXPECT_THAT(outcome.err, HasSubstr("older tokens behind the first 4 were dropped"));
}

TEST(Shift, ChunksThreadsAndKernelsDoNotChangeTheText) {
  const Outcome expected = run(shifting());
  EXPECT_EQ(expected.exit_code, 0) << expected.err;
  EXPECT_EQ(run(shifting()).out, expected.out);
  for (const Arguments& flags : {Arguments{"--chunk", "1"},
                                 {"--chunk", "512"},
                                 {"-t", "1"},
                                 {"-t", "2"},
                                 {"--kernels", "ref"}}) {
    EXPECT_EQ(run(shifting() + flags).out, expected.out) << flags.back();
  }
}

TEST(Shift, UntilTheContextIsFullTheTextIsThatOfALargerOne) {
  const std::string shifted = run(shifting()).out;
  const std::string whole = run(story()).out;
  EXPECT_EQ(shifted.substr(0, 100), whole.substr(0, 100));
}

TEST(Shift, WithoutItAFullContextIsAFailure) {
  for (const Arguments& flags : {Arguments{}, {"--on-full", "error"}}) {
    const Outcome outcome = run(in_64_positions() + flags);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("the context of 64 positions is full"));
    EXPECT_THAT(outcome.err, HasSubstr("--on-full shift"));
  }
}

TEST(Shift, KeepingTheWholeContextIsAnErrorOfUse) {
  for (const char* keep : {"64", "65", "9223372036854775807"}) {
    const Outcome outcome =
        run(in_64_positions() + Arguments{"--on-full", "shift", "--keep", keep});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(keep));
    EXPECT_THAT(outcome.err, HasSubstr("64"));
    EXPECT_EQ(outcome.n_err_lines(), 1);
  }
  EXPECT_EQ(
      run({"plan", tinyworld(), "--ctx", "64", "--on-full", "shift", "--keep", "64"}).exit_code, 2);
  // The same for the context that nobody named.
  const Outcome standard = run(story() + Arguments{"--on-full", "shift", "--keep", "8192"});
  EXPECT_EQ(standard.exit_code, 2);
  EXPECT_THAT(standard.err, HasSubstr("8192"));
  EXPECT_EQ(run(in_64_positions() + Arguments{"--on-full", "shift", "--keep", "63"}).exit_code, 0);
}

TEST(Shift, APromptThatCannotFitBesideWhatIsKeptIsRefused) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += " box";
  const Outcome outcome = run(
      {"run", "-m", tinyworld(), "-p", text, "--ctx", "64", "--on-full", "shift", "--keep", "4"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("holds 60"));
}

const std::string kFacts =
    "Answer from the story.\n"
    "Hana the baker lives in Elmhurst and keeps a red key in box 12. The box is made of oak and "
    "stands in the hall. Omar the miller lives in Dunwick and keeps a blue map in box 77.";

TEST(Shift, AChatKeepsItsSystemMessageAndGoesOn) {
  const Arguments chat = {"chat", "-m", tinyworld(), "--system", kFacts, "--ctx", "160"};
  std::string script;
  std::string answers;
  for (int i = 0; i < 10; ++i) {
    script += "Where does Hana live?\nWhat does Omar do?\n";
    answers += "Hana lives in Elmhurst.\nOmar is a miller.\n";
  }
  const Outcome shifted = run(chat + Arguments{"--on-full", "shift"}, script);
  EXPECT_EQ(shifted.exit_code, 0) << shifted.err;
  EXPECT_EQ(shifted.out, answers) << "the facts stand in the system message";
  EXPECT_THAT(shifted.err, HasSubstr("was full 3 times"));
  // By default the conversation ends.
  const Outcome ended = run(chat, script);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("the context holds 160"));
  EXPECT_THAT(ended.err, Not(HasSubstr("dropped")));
  // Nothing kept: the facts go sooner or later.
  const Outcome forgot = run(chat + Arguments{"--on-full", "shift", "--keep", "0"}, script);
  EXPECT_EQ(forgot.exit_code, 0) << forgot.err;
  EXPECT_NE(forgot.out, answers);
}

TEST(Shift, AMessageTooLongForAShiftingChatLeavesTheConversationUsable) {
  std::string too_long;
  for (int i = 0; i < 300; ++i) too_long += " box";
  const Outcome outcome =
      run({"chat", "-m", tinyworld(), "--system", kFacts, "--ctx", "160", "--on-full", "shift"},
          "Where does Hana live?\n" + too_long + "\nWhat does Omar do?\n");
  EXPECT_EQ(outcome.exit_code, 1) << "a script must hear of the turn that failed";
  EXPECT_EQ(outcome.out, "Hana lives in Elmhurst.\nOmar is a miller.\n");
}

TEST(Shift, ThePlanCountsWhatItNeeds) {
  const Arguments plan = {"plan", tinyworld(), "--ctx", "1024", "--json"};
  const std::string without = run(plan).out;
  const std::string with = run(plan + Arguments{"--on-full", "shift"}).out;
  // At least a page for holes, and a second copy of a chunk's queries.
  EXPECT_GE(integer_at(with, "/pool_bytes"),
            integer_at(without, "/pool_bytes") + integer_at(with, "/page_groups/0/bytes_per_page"));
  EXPECT_GT(integer_at(with, "/scratch_bytes"), integer_at(without, "/scratch_bytes"));
  EXPECT_GT(integer_at(with, "/total_bytes"), integer_at(without, "/total_bytes"));
}

TEST(Shift, HelpSaysWhatIsDropped) {
  for (const char* verb : {"run", "chat", "plan"}) {
    const std::string help = run({verb, "--help"}).out;
    EXPECT_THAT(help, HasSubstr("--on-full"));
    EXPECT_THAT(help, HasSubstr("older half"));
    EXPECT_THAT(help, HasSubstr("--keep"));
    EXPECT_THAT(help, HasSubstr("system message"));
  }
}

}  // namespace
}  // namespace kvant::e2e
