// Weights are mapped, not copied, and state is taken when it is written.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/e2e/program.h"

namespace kvant::e2e {
namespace {

TEST(Memory, ResidentBytesStayWithinFilePlanAndAFixedPart) {
  constexpr std::int64_t kFixedPart = 64 << 20;
  const Outcome outcome = run({"run", "-m", tinyworld(), "-f", tinyworld() + "/demo-story.txt",
                               "--parse-special", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto file_bytes =
      static_cast<std::int64_t>(std::filesystem::file_size(tinyworld() + "/model.safetensors"));
  const auto limit =
      file_bytes + integer_at(outcome.out, "/figures/planned_state_bytes") + kFixedPart;
  EXPECT_LT(outcome.peak_rss_bytes, limit);
  EXPECT_LT(integer_at(outcome.out, "/figures/peak_rss_bytes"), limit);
}

TEST(Memory, ALongContextTakesNothingUntilItIsUsed) {
  // 32768 positions in f32 are 128 MiB of rows; a short prompt touches one page of them.
  const Outcome outcome = run({"run", "-m", tinyworld(), "-p", "Hana lives in", "-n", "4", "--ctx",
                               "32768", "--kv", "f32", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_GT(integer_at(outcome.out, "/figures/planned_state_bytes"), 128 << 20);
  EXPECT_LT(outcome.peak_rss_bytes, 100 << 20);
}

}  // namespace
}  // namespace kvant::e2e
