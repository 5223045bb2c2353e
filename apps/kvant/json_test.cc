#include "apps/kvant/json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace kvant::app {
namespace {

TEST(JsonText, KeepsOrderAndTypes) {
  const Json::Object object = {{"z", 1},
                               {"a", true},
                               {"half", 0.5},
                               {"none", {}},
                               {"bytes", Bytes(7)},
                               {"text", "q\"\n"},
                               {"list", json_of(std::vector{1, 2})},
                               {"inner", Json::Object{}}};
  EXPECT_EQ(to_text(object),
            "{\n  \"z\": 1,\n  \"a\": true,\n  \"half\": 0.5,\n  \"none\": null,\n  \"bytes\": 7,\n"
            "  \"text\": \"q\\\"\\n\",\n  \"list\": [\n    1,\n    2\n  ],\n  \"inner\": {}\n}\n");
}

TEST(JsonText, BytesThatAreNotUtf8DoNotBreakIt) {
  EXPECT_EQ(to_text("a\xFF"
                    "b"),
            "\"a\xEF\xBF\xBD"
            "b\"\n");
}

TEST(JsonText, NumbersThatJsonLacksAreNull) {
  EXPECT_EQ(to_text(std::numeric_limits<double>::quiet_NaN()), "null\n");
  EXPECT_EQ(to_text(std::numeric_limits<double>::infinity()), "null\n");
  EXPECT_EQ(to_text(std::numeric_limits<std::int64_t>::max()), "9223372036854775807\n");
}

}  // namespace
}  // namespace kvant::app
