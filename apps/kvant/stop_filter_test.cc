#include "apps/kvant/stop_filter.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace kvant::app {
namespace {

// The text given out when `text` comes in pieces of `size` bytes.
std::string filtered(StopFilter& filter, std::string_view text, std::size_t size) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += size) out += filter.push(text.substr(at, size));
  return filter.found().empty() ? out + filter.flush() : out;
}

TEST(StopFilter, EveryCutOfTheTextEndsBeforeTheStopString) {
  const std::string_view text = "one two END three END";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    StopFilter filter({"END"});
    EXPECT_EQ(filtered(filter, text, size), "one two ") << size;
    EXPECT_EQ(filter.found(), "END");
  }
}

TEST(StopFilter, WhatOnlyLookedLikeAStopStringIsGivenOut) {
  for (std::size_t size = 1; size <= 4; ++size) {
    StopFilter filter({"aab"});
    EXPECT_EQ(filtered(filter, "aaac aa", size), "aaac aa") << size;
    EXPECT_EQ(filter.found(), "");
  }
}

TEST(StopFilter, TheFirstToBeCompleteWins) {
  for (std::size_t size = 1; size <= 6; ++size) {
    StopFilter filter({"later", "at", "s"});
    EXPECT_EQ(filtered(filter, "he sat later", size), "he ") << size;
    EXPECT_EQ(filter.found(), "s");
  }
}

TEST(StopFilter, AStopStringInsideALongerOneEndsTheTextHoweverItIsCut) {
  for (const std::string_view text : {"xabcdx", "xabcdex", "xabc"}) {
    for (std::size_t size = 1; size <= text.size(); ++size) {
      StopFilter filter({"abcde", "bc"});
      EXPECT_EQ(filtered(filter, text, size), "xa") << text << size;
      EXPECT_EQ(filter.found(), "bc");
    }
  }
}

TEST(StopFilter, OfTwoThatEndTogetherTheLongerIsRemoved) {
  for (std::size_t size = 1; size <= 4; ++size) {
    StopFilter filter({"b", "ab"});
    EXPECT_EQ(filtered(filter, "xabc", size), "x") << size;
  }
}

TEST(StopFilter, NothingComesOutAfterTheStopString) {
  StopFilter filter({"."});
  EXPECT_EQ(filter.push("a.b"), "a");
  EXPECT_EQ(filter.push("c"), "");
  EXPECT_EQ(filter.flush(), "");
}

}  // namespace
}  // namespace kvant::app
