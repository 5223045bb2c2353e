// kvant plan: numbers that can be computed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/program.h"

namespace kvant::e2e {
namespace {

using testing::HasSubstr;

Arguments plan(const Arguments& flags) {
  Arguments arguments = {"plan", tinyworld(), "--json", "-t", "2"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return arguments;
}

std::string planned(const Arguments& flags) {
  const Outcome outcome = run(plan(flags));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.out;
}

// tinyworld: 4 attention layers of 2 KV heads of 64 numbers; 6 convolutions that keep 2 rows of
// 256.
constexpr std::int64_t kNumbersPerPosition = 4 * 2 * 64 * 2;
constexpr std::int64_t kConvBytes = 6 * 2 * 256 * 4;
constexpr std::int64_t kPage = 128;

TEST(Plan, RowsAndPagesAreWhatTheShapeSays) {
  const std::string f16 = planned({"--ctx", "1000"});
  EXPECT_EQ(integer_at(f16, "/logical_bytes"), 1000 * kNumbersPerPosition * 2 + kConvBytes);
  EXPECT_EQ(integer_at(f16, "/pages_per_sequence"), 8);
  EXPECT_EQ(integer_at(f16, "/pages_bytes"), 8 * kPage * kNumbersPerPosition * 2);
  EXPECT_EQ(integer_at(f16, "/recurrent_bytes"), 2 * kConvBytes);  // one is the initial values
  const std::string f32 = planned({"--ctx", "1000", "--kv", "f32"});
  EXPECT_EQ(integer_at(f32, "/pages_bytes"), 8 * kPage * kNumbersPerPosition * 4);
  const std::string mixed = planned({"--ctx", "1000", "--kv-k", "f32", "--kv-v", "bf16"});
  EXPECT_EQ(integer_at(mixed, "/pages_bytes"), 8 * kPage * kNumbersPerPosition * 3);
}

TEST(Plan, PartsAddUpToTheTotal) {
  for (const Arguments& flags : {Arguments{}, {"--seqs", "3"}, {"--ctx", "1"}, {"--kv", "f32"}}) {
    const std::string out = planned(flags);
    std::int64_t sum = 0;
    for (const char* part : {"pages", "recurrent", "snapshots", "tables", "scratch", "session"}) {
      sum += integer_at(out, std::string("/") + part + "_bytes");
    }
    EXPECT_EQ(sum, integer_at(out, "/total_bytes"));
  }
}

TEST(Plan, SequencesMultiplyThePages) {
  EXPECT_EQ(integer_at(planned({"--ctx", "512", "--seqs", "5"}), "/pages_bytes"),
            5 * integer_at(planned({"--ctx", "512"}), "/pages_bytes"));
}

TEST(Plan, TheDefaultContextIsTheModelsOr8192) {
  EXPECT_EQ(integer_at(planned({}), "/context"), 8192);
  EXPECT_EQ(integer_at(run({"plan", source("tests/golden/lfm2"), "--json"}).out, "/context"), 4096);
}

TEST(Plan, ABudgetGivesTheLongestContextThatFits) {
  for (const std::int64_t budget : {8'000'000, 33'554'432, 50'000'001}) {
    const std::string out = planned({"--budget", std::to_string(budget)});
    const std::int64_t context = integer_at(out, "/context");
    EXPECT_LE(integer_at(out, "/total_bytes"), budget);
    const std::string more = planned({"--ctx", std::to_string(context + 1)});
    EXPECT_GT(integer_at(more, "/total_bytes"), budget) << context;
  }
  EXPECT_EQ(integer_at(planned({"--budget", "1T"}), "/context"), 32768);
}

TEST(Plan, AConfigFileAloneIsEnough) {
  const Folder folder;
  const std::string config = folder.write("config.json", read_whole(tinyworld() + "/config.json"));
  EXPECT_EQ(run({"plan", config, "--json", "-t", "2"}).out, planned({}));
  EXPECT_EQ(run({"plan", folder.path(), "--json", "-t", "2"}).out, planned({}));
}

TEST(Plan, TheTableGroupsEqualLayersUnlessAllAreAskedFor) {
  const std::string grouped = run({"plan", tinyworld(), "--ctx", "1000"}).out;
  EXPECT_THAT(grouped, HasSubstr("2 4 6 8"));
  EXPECT_THAT(grouped, HasSubstr("[2, 1000, 64]"));
  EXPECT_THAT(grouped, HasSubstr(std::to_string(4 * 2 * 1000 * 64 * 2)));
  const std::string all = run({"plan", tinyworld(), "--ctx", "1000", "--all"}).out;
  EXPECT_THAT(all, testing::Not(HasSubstr("2 4 6 8")));
  EXPECT_THAT(all, HasSubstr(std::to_string(2 * 1000 * 64 * 2)));
}

}  // namespace
}  // namespace kvant::e2e
