#include "kvant/base/log.h"

#include <gtest/gtest.h>

#include <string>

namespace kvant {
namespace {

// What `write` prints to stderr at `level`.
template <class Write>
std::string printed(LogLevel level, Write write) {
  set_log_level(level);
  ::testing::internal::CaptureStderr();
  write();
  set_log_level(LogLevel::kWarning);
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, ALineSaysItsLevelAndGoesToStderr) {
  EXPECT_EQ(printed(LogLevel::kInfo, [] { log_warning("disk is slow"); }),
            "kvant: warning: disk is slow\n");
}

TEST(Log, LinesBelowTheLevelAreDropped) {
  EXPECT_EQ(printed(LogLevel::kWarning, [] { log_info("loaded"); }), "");
  EXPECT_EQ(printed(LogLevel::kOff, [] { log_line(LogLevel::kError, "lost"); }), "");
}

TEST(Log, BracesInATextAreText) {
  EXPECT_EQ(printed(LogLevel::kInfo, [] { log_info("{} {0:x"); }), "kvant: info: {} {0:x\n");
}

}  // namespace
}  // namespace kvant
