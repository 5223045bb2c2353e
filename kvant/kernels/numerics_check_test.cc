#include "kvant/kernels/numerics_check.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "kvant/kernels/dispatch.h"

namespace kvant::kernels {
namespace {

std::string golden_text() {
  std::ifstream file(KVANT_SOURCE_DIR "/tests/golden/numerics.json");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(NumericsCheck, EveryAvailableTargetGivesTheDigestsOfTheGoldenFile) {
  const auto expected = parse_numerics_json(golden_text());
  ASSERT_TRUE(expected) << describe(expected.error());
  for (const Target target : all_targets()) {
    if (!is_available(target)) continue;
    const NamedStatus status = check_numerics(table_of(target), *expected);
    EXPECT_TRUE(status) << describe(status.error());
  }
}

TEST(NumericsCheck, TheGoldenFileIsWhatTheReferenceWouldWrite) {
  EXPECT_EQ(golden_text(), numerics_json(numerics_digests(table_of(Target::kRef))));
}

TEST(NumericsCheck, NamesTheKernelThatDiffers) {
  KernelTable wrong = table_of(Target::kRef);
  wrong.add = [](const float* x, std::int64_t n, float* y) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = y[i] + x[i] * 1.0000001F;
  };
  const auto expected = parse_numerics_json(golden_text());
  ASSERT_TRUE(expected);
  const NamedStatus status = check_numerics(wrong, *expected);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kDigestMismatch);
  EXPECT_EQ(status.error().detail(), "ref: add");
}

TEST(NumericsCheck, RefusesFilesOfAnotherShapeOrVersion) {
  const auto code_of = [](std::string_view text) {
    const auto parsed = parse_numerics_json(text);
    return parsed ? ErrorCode{} : parsed.error().code();
  };
  EXPECT_EQ(code_of("{"), ErrorCode::kBadJson);
  EXPECT_EQ(code_of("[]"), ErrorCode::kBadFormat);
  EXPECT_EQ(code_of("{\"numerics\": 1, \"digests\": {}}"), ErrorCode::kBadFormat);
  EXPECT_EQ(code_of("{\"numerics\": \"cpu-1.0\"}"), ErrorCode::kBadFormat);
  EXPECT_EQ(code_of("{\"numerics\": \"cpu-1.0\", \"digests\": {\"add\": 1}}"),
            ErrorCode::kBadFormat);
  EXPECT_EQ(code_of("{\"numerics\": \"cpu-0.9\", \"digests\": {}}"), ErrorCode::kBadValue);
}

}  // namespace
}  // namespace kvant::kernels
