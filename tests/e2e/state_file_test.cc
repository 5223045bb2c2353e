// kvant run --save-state and --load-state, and what kvant inspect says of such a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/e2e/program.h"

namespace kvant::e2e {
namespace {

using testing::HasSubstr;

const char* const kStory = "Hana the baker lives in";

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Arguments run_tinyworld(const Arguments& flags) {
  return Arguments{"run", "-m", tinyworld()} + flags;
}

std::string text_of(const Arguments& flags) {
  const Outcome outcome = run(run_tinyworld(flags + Arguments{"--json"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return json_at(outcome.out, "/tokens");
}

// The items of two JSON arrays in one.
std::string joined(const std::string& a, const std::string& b) {
  return a.substr(0, a.size() - 1) + "," + b.substr(1);
}

TEST(SavedState, GoesOnInAnotherProcessAsIfItHadNotStopped) {
  const Folder folder;
  const std::string file = folder.path("state");
  const std::string whole = text_of({"-p", kStory, "-n", "24"});
  const std::string first = text_of({"-p", kStory, "-n", "11", "--save-state", file});
  EXPECT_EQ(joined(first, text_of({"--load-state", file, "-n", "13"})), whole);
  // Another context, chunk and thread count; a saved state may be loaded any number of times.
  EXPECT_EQ(joined(first, text_of({"--load-state", file, "-n", "13", "--ctx", "64", "--chunk", "3",
                                   "-t", "1"})),
            whole);
  // Saved again half way.
  const std::string second = text_of({"--load-state", file, "-n", "6", "--save-state", file});
  EXPECT_EQ(joined(joined(first, second), text_of({"--load-state", file, "-n", "7"})), whole);
}

TEST(SavedState, TakesAPromptWhereItStands) {
  const Folder folder;
  const std::string file = folder.path("state");
  const std::string question =
      "<|im_end|>\n<|im_start|>user\nWhere does Hana live?<|im_end|>\n"
      "<|im_start|>assistant\n";
  const std::string story = "<|im_start|>system\nHana the baker lives in Elmhurst.";
  const std::string whole = text_of({"--parse-special", "-p", story + question, "-n", "8"});
  text_of({"--parse-special", "-p", story, "-n", "0", "--save-state", file});
  EXPECT_EQ(text_of({"--load-state", file, "--parse-special", "-p", question, "-n", "8"}), whole);
}

TEST(SavedState, OfAChatTakesTheNextMessage) {
  const Folder folder;
  const std::string file = folder.path("state");
  const Arguments first = {"--chat", "--system", "Hana the baker lives in Elmhurst.", "-p",
                           "Where does Hana live?"};
  const std::string reply = text_of(first + Arguments{"--save-state", file});
  const std::string again =
      text_of({"--load-state", file, "--chat", "-p", "Where does Hana live?", "-n", "8"});
  EXPECT_NE(again, "[]");
  const Outcome seen = run({"inspect", file, "--json"});
  EXPECT_GT(integer_at(seen.out, "/n_tokens"), 20);
}

TEST(SavedState, IsDescribed) {
  const Folder folder;
  const std::string file = folder.path("state");
  text_of({"-p", kStory, "-n", "11", "--save-state", file});
  const Outcome text = run({"inspect", file});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("state file         version 0, compact"));
  EXPECT_THAT(text.out, HasSubstr("conv_state"));
  EXPECT_THAT(text.out, HasSubstr("all checksums right"));
  const Outcome json = run({"inspect", file, "--json"});
  EXPECT_EQ(json_at(json.out, "/format"), "\"state file\"");
  EXPECT_EQ(json_at(json.out, "/lineage"), "\"cold\"");
  EXPECT_EQ(integer_at(json.out, "/position") + 1, integer_at(json.out, "/n_tokens"));
  EXPECT_EQ(integer_at(json.out, "/n_layers"), 10);
  EXPECT_EQ(integer_at(json.out, "/bytes"),
            static_cast<std::int64_t>(std::filesystem::file_size(file)));
}

TEST(SavedState, ThatIsDamagedOrCutIsRefused) {
  const Folder folder;
  const std::string file = folder.path("state");
  text_of({"-p", kStory, "-n", "4", "--save-state", file});
  const std::string bytes = read_whole(file);
  std::string damaged = bytes;
  damaged[bytes.size() / 2] ^= '\x01';
  for (const std::string& path : {folder.write("damaged", damaged),
                                  folder.write("cut", bytes.substr(0, bytes.size() - 64))}) {
    for (const Arguments& arguments :
         {run_tinyworld({"--load-state", path}), Arguments{"inspect", path}}) {
      const Outcome outcome = run(arguments);
      EXPECT_EQ(outcome.exit_code, 1);
      EXPECT_EQ(outcome.out, "");
      EXPECT_THAT(outcome.err, HasSubstr(path + ": "));
      EXPECT_THAT(outcome.err, testing::AnyOf(HasSubstr("checksum"), HasSubstr("truncated")));
    }
  }
}

TEST(SavedState, OfAnotherModelOrAnotherKindOfRowsIsRefused) {
  const Folder folder;
  const std::string file = folder.path("state");
  text_of({"-p", kStory, "-n", "4", "--save-state", file});
  const Outcome kind = run(run_tinyworld({"--load-state", file, "--kv", "f32"}));
  EXPECT_EQ(kind.exit_code, 1);
  EXPECT_THAT(kind.err, HasSubstr("layer 2: keys: the snapshot belongs to another layout"));

  const Folder model;
  model.copy_from(tinyworld());
  std::string weights = read_whole(model.path("model.safetensors"));
  weights[weights.size() - 3] ^= '\x01';
  model.write("model.safetensors", weights);
  const Outcome other = run({"run", "-m", model.path(), "--load-state", file});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("the state was made by another model"));
}

TEST(SavedState, ThatCannotBeWrittenIsAFailure) {
  const Folder folder;
  const Outcome outcome = run(run_tinyworld(
      {"-p", kStory, "-n", "1", "--save-state", folder.path("no/such/folder/state")}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no/such/folder/state: cannot open file"));
  EXPECT_EQ(run(run_tinyworld({"-p", kStory, "-n", "1", "--save-state", "/dev/null"})).exit_code,
            1);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(SavedState, ASystemMessageInTheMiddleIsAnErrorOfUse) {
  const Outcome outcome =
      run(run_tinyworld({"--load-state", "x", "--chat", "--system", "Be brief.", "-p", "Hello"}));
  EXPECT_EQ(outcome.exit_code, 2);
}

}  // namespace
}  // namespace kvant::e2e
