// The verbs that prove and measure: verify, eval, inspect, bench.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "tests/e2e/program.h"

namespace kvant::e2e {
namespace {

using testing::HasSubstr;

TEST(Verify, TheSmallModelAgreesWithItsGoldenFileByEveryRoute) {
  const Outcome outcome = run({"verify", source("tests/golden/lfm2"), "-t", "2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("PASS"));
  for (const char* route :
       {"one prefill", "chunks of 127", "decode", "beside two others", "snapshot at 129"}) {
    EXPECT_THAT(outcome.out, HasSubstr(route));
  }
}

TEST(Verify, OtherKindsOfRowsAreJudgedByTheirBits) {
  const Outcome outcome = run(
      {"verify", source("tests/golden/lfm2"), "--kv", "f16", "--via", "oneshot,decode", "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(json_at(outcome.out, "/passed"), "true");
  EXPECT_EQ(json_at(outcome.out, "/routes/1/first_other_bit"), "-1");
}

// Flips the exponent's lowest bit of one number of a tensor in a safetensors file.
void change_number(std::string& file, const std::string& tensor, std::size_t index) {
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const std::string header = file.substr(8, header_bytes);
  const auto begin = integer_at(header, "/" + tensor + "/data_offsets/0");
  const std::size_t at = 8 + header_bytes + static_cast<std::size_t>(begin) + index * 4;
  std::uint32_t bits = 0;
  std::memcpy(&bits, file.data() + at, sizeof bits);
  bits ^= std::uint32_t{1} << 23;
  std::memcpy(file.data() + at, &bits, sizeof bits);
}

TEST(Verify, OneChangedValueOfTheGoldenFileIsAFailure) {
  for (const char* tensor : {"logits", "nll", "hidden.2"}) {
    const Folder folder;
    std::string golden = read_whole(source("tests/golden/lfm2/golden.safetensors"));
    change_number(golden, tensor, 3);
    const std::string path = folder.write("golden.safetensors", golden);
    const Outcome outcome =
        run({"verify", path, "-m", source("tests/golden/lfm2"), "--via", "oneshot"});
    EXPECT_EQ(outcome.exit_code, 1) << tensor << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("FAIL"));
    EXPECT_THAT(outcome.err, HasSubstr("kvant: "));
  }
}

TEST(Eval, RecallCountsExactAnswersBySizeOfCast) {
  const Folder folder;
  // The first case of the file, once with its answer and once with a wrong one.
  const std::string all = read_whole(source("tests/golden/recall.jsonl"));
  const std::string first = all.substr(0, all.find('\n'));
  std::string wrong = first;
  const std::size_t answer = wrong.find("\"answer\": \"") + 11;
  wrong.insert(answer, "Nobody knows, but ");
  const std::string file = folder.write("recall.jsonl", first + "\n" + wrong + "\n");
  const Outcome outcome = run({"eval", "-m", tinyworld(), "--recall", file, "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(json_at(outcome.out, "/recall/0/people"), "4");
  EXPECT_EQ(json_at(outcome.out, "/recall/0/cases"), "2");
  EXPECT_EQ(json_at(outcome.out, "/recall/0/exact"), "1");
}

TEST(Eval, PerplexityIsThatOfTheMeanNll) {
  const Folder folder;
  const std::string text =
      read_whole(source("tests/golden/tinyworld-lfm2/prompt.txt")).substr(100, 1500);
  const std::string file = folder.write("text", text);
  const Outcome outcome =
      run({"eval", "-m", tinyworld(), "--text", file, "--window", "128", "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const double nll = std::stod(json_at(outcome.out, "/mean_nll"));
  EXPECT_NEAR(std::stod(json_at(outcome.out, "/perplexity")), std::exp(nll), 1e-6);
  // The model was trained on such text: far better than 1280 equally likely tokens.
  EXPECT_LT(nll, 4.0);
  EXPECT_GT(integer_at(outcome.out, "/windows"), 1);
}

TEST(Inspect, AFileListsItsTensors) {
  const std::string path = source("tests/golden/lfm2/model.safetensors");
  const Outcome text = run({"inspect", path});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("model.embed_tokens.weight"));
  EXPECT_THAT(text.out, HasSubstr("[320, 64]"));
  const Outcome json = run({"inspect", path, "--json"});
  EXPECT_EQ(json_at(json.out, "/tensors/0/dtype"), "\"f32\"");
}

TEST(Inspect, ADirectoryTellsItsConfig) {
  const Outcome json = run({"inspect", tinyworld(), "--json"});
  EXPECT_EQ(json.exit_code, 0) << json.err;
  EXPECT_EQ(json_at(json.out, "/config/hidden_size"), "256");
  EXPECT_EQ(json_at(json.out, "/config/layers/2/n_kv_heads"), "2");
  EXPECT_THAT(run({"inspect", tinyworld()}).out, HasSubstr("ccAcAcAcAc"));
}

TEST(Bench, EveryTargetGivesTheDocumentedBits) {
  const Outcome outcome =
      run({"bench", "--check-numerics", source("tests/golden/numerics.json"), "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(json_at(outcome.out, "/numerics/targets/0/outcome"), "\"equal\"");
}

TEST(Bench, WrittenDigestsAreTheStoredOnes) {
  const Folder folder;
  const std::string path = folder.path("digests.json");
  EXPECT_EQ(run({"bench", "--write-numerics", path}).exit_code, 0);
  EXPECT_EQ(read_whole(path), read_whole(source("tests/golden/numerics.json")));
}

TEST(Bench, AnotherDigestIsAFailure) {
  const Folder folder;
  std::string digests = read_whole(source("tests/golden/numerics.json"));
  // The first digit of the last digest.
  const std::size_t end = digests.rfind('"');
  char& digit = digests[digests.rfind('"', end - 1) + 1];
  digit = digit == '0' ? '1' : '0';
  const Outcome outcome = run({"bench", "--check-numerics", folder.write("digests.json", digests)});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("differs"));
}

TEST(Bench, DecodeReportsItsShareOfTheBandwidth) {
  const Folder folder;
  const Outcome outcome = run(
      {"bench", "--decode", "-m", tinyworld(), "--dir", folder.path(), "--rounds", "1", "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_GT(std::stod(json_at(outcome.out, "/decode/share_of_read")), 0.0);
  EXPECT_GT(integer_at(outcome.out, "/decode/bytes_per_token"), 15'000'000);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "scratch files must go";
}

}  // namespace
}  // namespace kvant::e2e
