// The golden file of the bundled model: 1194 tokens of a story by every route.
#include "tests/support/golden_suite.h"

namespace kvant::engine {
namespace {

constexpr const char* kGolden = "tests/golden/tinyworld-lfm2";
constexpr const char* kModel = "models/tinyworld-lfm2";

INSTANTIATE_TEST_SUITE_P(Tinyworld, GoldenFile,
                         testing::Values(Case{kGolden, kModel, codec::Kind::kF32, 1},
                                         Case{kGolden, kModel, codec::Kind::kF32, 2},
                                         Case{kGolden, kModel, codec::Kind::kF16, 2}),
                         case_name);

}  // namespace
}  // namespace kvant::engine
