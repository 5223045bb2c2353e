// What goes wrong is said in one line that names what was received and what was expected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>

#include "tests/e2e/program.h"

namespace kvant::e2e {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// One line on standard error that holds `what`, and nothing on standard output.
void expect_refused(const Outcome& outcome, int exit_code, std::string_view what) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.n_err_lines(), 1) << outcome.err;
  EXPECT_THAT(outcome.err, StartsWith("kvant: "));
  EXPECT_THAT(outcome.err, HasSubstr(std::string(what)));
}

TEST(Errors, AMissingModelDirectoryIsNamed) {
  const Folder folder;
  expect_refused(run({"run", "-m", folder.path("nowhere"), "-p", "x"}), 1, "nowhere");
}

TEST(Errors, MissingFilesOfAModelAreNamed) {
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    const Folder folder;
    folder.copy_from(tinyworld());
    std::filesystem::remove(folder.path(file));
    expect_refused(run({"run", "-m", folder.path(), "-p", "x"}), 1, file);
  }
}

TEST(Errors, AModelThatIsNoDirectoryIsNamed) {
  const Folder folder;
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(run({"run", "-m", pipe, "-p", "x"}), 1, "Not a directory");
  expect_refused(run({"plan", pipe}), 1, "Not a directory");
}

// Without such a file a model may answer otherwise, so only one that is not there is passed over.
TEST(Errors, OptionalFilesThatCannotBeReadAreErrors) {
  for (const char* file : {"tokenizer_config.json", "generation_config.json"}) {
    const Folder folder;
    folder.copy_from(tinyworld());
    folder.write(file, "");
    expect_refused(run({"run", "-m", folder.path(), "-p", "x"}), 1, file);
    std::filesystem::remove(folder.path(file));
    std::filesystem::create_symlink(file, folder.path(file));
    expect_refused(run({"run", "-m", folder.path(), "-p", "x"}), 1, file);
  }
}

TEST(Errors, VerifyWithoutAModelSaysHowToNameOne) {
  expect_refused(run({"verify", source("tests/golden/tinyworld-lfm2")}), 1, "-m DIR");
}

TEST(Errors, TruncatedWeightsAreRefusedWithTheFilesName) {
  const std::string whole = read_whole(tinyworld() + "/model.safetensors");
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    const Folder folder;
    folder.copy_from(tinyworld());
    folder.write("model.safetensors", whole.substr(0, size));
    expect_refused(run({"run", "-m", folder.path(), "-p", "x"}), 1, "model.safetensors");
  }
}

TEST(Errors, TruncatedJsonFilesAreRefusedWithTheirName) {
  for (const char* file : {"config.json", "tokenizer.json"}) {
    const Folder folder;
    folder.copy_from(tinyworld());
    const std::string whole = read_whole(folder.path(file));
    folder.write(file, whole.substr(0, whole.size() / 2));
    expect_refused(run({"run", "-m", folder.path(), "-p", "x"}), 1, file);
  }
}

TEST(Errors, AModelOfAnotherTypeIsNamed) {
  const Folder folder;
  const std::string config =
      folder.write("config.json", R"({"model_type": "gpt2", "hidden_size": 8})");
  expect_refused(run({"plan", config}), 1, "gpt2");
  expect_refused(run({"run", "-m", folder.path(), "-p", "x"}), 1, "gpt2");
}

TEST(Errors, AnEmptyPromptIsRefused) {
  expect_refused(run({"run", "-m", tinyworld(), "-p", ""}), 1, "prompt is empty");
  const Folder folder;
  expect_refused(run({"run", "-m", tinyworld(), "-f", folder.write("empty", "")}), 1,
                 "prompt is empty");
  expect_refused(run({"run", "-m", tinyworld(), "-f", "-"}), 1, "prompt is empty");
}

TEST(Errors, APromptLongerThanTheContextSaysBothNumbers) {
  // Each "a b" and newline is one token at least.
  std::string prompt;
  for (int i = 0; i < 100; ++i) prompt += "a b\n";
  expect_refused(run({"run", "-m", tinyworld(), "--ctx", "50", "-p", prompt}), 1,
                 "the context holds 50");
}

TEST(Errors, AContextOfNothingIsRefused) {
  expect_refused(run({"run", "-m", tinyworld(), "--ctx", "0", "-p", "x"}), 1,
                 "context of 0 positions");
  expect_refused(run({"plan", tinyworld(), "--ctx", "0"}), 1, "context of 0 positions");
}

TEST(Errors, AContextBeyondTheModelSaysBothNumbers) {
  for (const Arguments& arguments : {Arguments{"plan", tinyworld(), "--ctx", "32769"},
                                     {"run", "-m", tinyworld(), "--ctx", "32769", "-p", "x"}}) {
    const Outcome outcome = run(arguments);
    expect_refused(outcome, 1, "32769");
    EXPECT_THAT(outcome.err, HasSubstr("32768"));
  }
}

TEST(Errors, APlanBeyondTheMemoryIsRefusedBeforeAnythingIsDone) {
  for (const Arguments& arguments : {Arguments{"plan", tinyworld(), "--ram", "1M"},
                                     {"run", "-m", tinyworld(), "--ram", "1M", "-p", "x"},
                                     {"chat", "-m", tinyworld(), "--ram", "1M"}}) {
    expect_refused(run(arguments), 1, "out of memory");
    EXPECT_THAT(run(arguments).err, HasSubstr("1048576"));
  }
}

TEST(Errors, ABudgetBelowOnePositionIsRefused) {
  expect_refused(run({"plan", tinyworld(), "--budget", "10k"}), 1, "10240");
  expect_refused(run({"plan", tinyworld(), "--budget", "0"}), 2, "--budget");
}

TEST(Errors, UnknownFlagsAndVerbsAreErrorsOfUse) {
  expect_refused(run({"run", "-m", tinyworld(), "-p", "x", "--no-such-flag"}), 2, "--no-such-flag");
  expect_refused(run({"frobnicate"}), 2, "'frobnicate'");
  expect_refused(run({"frobnicate", "--help"}), 2, "'frobnicate'");
  expect_refused(run({}), 2, "--help");
  for (const char* verb : {"run", "chat", "plan", "verify", "eval", "inspect", "bench"}) {
    expect_refused(run({verb, "--no-such-flag"}), 2, "");
  }
}

TEST(Errors, UnusableValuesOfFlagsAreErrorsOfUse) {
  const Arguments start = {"run", "-m", tinyworld(), "-p", "x"};
  const std::vector<Arguments> ends = {{"--max-tokens", "many"}, {"--max-tokens", "-1"},
                                       {"--max-tokens", "1.5"},  {"--threads", "0"},
                                       {"--threads", "100000"},  {"--ctx", "-1"},
                                       {"--kv", "q9"},           {"--kv", "f16", "--kv-k", "f32"},
                                       {"--kernels", "mmx"},     {"--ram", "lots"},
                                       {"--ram", "0"},           {"--model", ""},
                                       {"--temp", "warm"},       {"--seed", "x"},
                                       {"--stop", ""},           {"--chunk", "0"},
                                       {"--system", "x"},        {"--on-full", "halt"},
                                       {"--file", "file"},       {"--chat", "--parse-special"}};
  for (const Arguments& end : ends) {
    Arguments arguments = start;
    arguments.insert(arguments.end(), end.begin(), end.end());
    expect_refused(run(arguments), 2, end.front());
  }
}

TEST(Errors, SamplingNumbersOutOfRangeAreNamed) {
  const Arguments start = {"run", "-m", tinyworld(), "-p", "x"};
  for (const Arguments& end : {Arguments{"--temp", "-1"},
                               {"--temp", "nan"},
                               {"--top-p", "0"},
                               {"--min-p", "1.5"},
                               {"--repeat-penalty", "0"}}) {
    Arguments arguments = start;
    arguments.insert(arguments.end(), end.begin(), end.end());
    expect_refused(run(arguments), 2, "must be");
  }
}

TEST(Errors, MissingArgumentsAreErrorsOfUse) {
  expect_refused(run({"run", "-p", "x"}), 2, "--model");
  expect_refused(run({"run", "-m", tinyworld()}), 2, "-p TEXT");
  expect_refused(run({"eval", "-m", tinyworld()}), 2, "--recall");
  expect_refused(run({"bench"}), 2, "decode");
  expect_refused(run({"plan"}), 2, "MODEL");
}

TEST(Errors, ControlCharactersOfNamesDoNotReachTheTerminal) {
  const Outcome outcome = run({"inspect", "no\x1b[31m\nfile"});
  expect_refused(outcome, 1, R"(no\x1b[31m\nfile)");
}

TEST(Errors, AFullDiskUnderStandardOutputIsAFailure) {
  const Outcome outcome = run_into_file({"plan", tinyworld()}, "/dev/full");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("standard output"));
}

TEST(Errors, AClosedStandardOutputIsAFailure) {
  for (const Arguments& arguments : {Arguments{"plan", tinyworld()}, {"--version"}}) {
    const Outcome outcome = run_without_output(arguments);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("standard output"));
  }
}

TEST(Errors, AClosedPipeEndsTheProgramQuietly) {
  const Outcome outcome =
      run_into_closed_pipe({"run", "-m", tinyworld(), "-p", "Hana lives in", "-n", "8"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("kvant:")));
}

TEST(Errors, AFileThatShrinksWhileMappedEndsTheProgramWithOneLine) {
  const Folder folder;
  folder.copy_from(tinyworld());
  Conversation chat({"chat", "-m", folder.path()});
  chat.read_err_until("kernels\n");
  std::filesystem::resize_file(folder.path("model.safetensors"), 4096);
  chat.type("Where does Hana live?\n");
  const Outcome outcome = chat.finish();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "kvant: a mapped file changed or shrank while in use\n");
}

TEST(Errors, CopiedWeightsDoNotMindAShrinkingFile) {
  const Folder folder;
  folder.copy_from(tinyworld());
  Conversation chat({"chat", "-m", folder.path(), "--no-map", "-n", "4"});
  chat.read_err_until("kernels\n");
  std::filesystem::resize_file(folder.path("model.safetensors"), 4096);
  chat.type("Where does Hana live?\n");
  EXPECT_EQ(chat.finish().exit_code, 0);
}

}  // namespace
}  // namespace kvant::e2e
