#include "kvant/base/check.h"

#include <gtest/gtest.h>

#include "kvant/base/clock.h"

namespace kvant {
namespace {

TEST(CheckDeathTest, ABrokenInvariantIsPrintedWithItsPlace) {
  const int n = 3;
  EXPECT_DEATH(KVANT_CHECK(n == 4), "check_test.cc:[0-9]+: broken invariant: n == 4");
}

TEST(Check, EvaluatesItsConditionOnce) {
  int n = 0;
  KVANT_CHECK(++n == 1);
  EXPECT_EQ(n, 1);
}

TEST(CheckDeathTest, DcheckIsCheckedInDebugBuildsOnly) {
  int evaluated = 0;
#ifdef NDEBUG
  KVANT_DCHECK(++evaluated == 0);
  EXPECT_EQ(evaluated, 0);
#else
  EXPECT_DEATH(KVANT_DCHECK(++evaluated == 0), "broken invariant");
#endif
}

TEST(Stopwatch, NeverRunsBackwards) {
  const Stopwatch watch;
  double before = 0.0;
  for (int i = 0; i < 1000; ++i) {
    const double now = watch.seconds();
    ASSERT_GE(now, before);
    before = now;
  }
}

}  // namespace
}  // namespace kvant
