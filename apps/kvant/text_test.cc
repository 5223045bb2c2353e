#include "apps/kvant/text.h"

#include <gtest/gtest.h>

namespace kvant::app {
namespace {

TEST(ParseBytes, AcceptsPowersOf1024InEverySpelling) {
  EXPECT_EQ(parse_bytes("4096"), Bytes(4096));
  EXPECT_EQ(parse_bytes("0"), Bytes(0));
  EXPECT_EQ(parse_bytes("7B"), Bytes(7));
  EXPECT_EQ(parse_bytes("512M"), Bytes(536870912));
  EXPECT_EQ(parse_bytes("512mb"), Bytes(536870912));
  EXPECT_EQ(parse_bytes("2GiB"), Bytes(2147483648));
  EXPECT_EQ(parse_bytes("1.5k"), Bytes(1536));
  EXPECT_EQ(parse_bytes("1T"), Bytes(1099511627776));
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "M", "-1", "1 G", "1X", "1ib", "0x10", "1e3", "..", "9999999999G",
                           "inf", "nan", "1GiBB"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
  }
}

TEST(ParseInteger, TakesDecimalNumbersWhole) {
  EXPECT_EQ(parse_integer("010"), 10);
  EXPECT_EQ(parse_integer("-3"), -3);
  for (const char* text : {"", "1x", "x", "1.0", "99999999999999999999", " 1"}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
  }
}

TEST(BytesText, KeepsAboutThreeDigits) {
  EXPECT_EQ(bytes_text(Bytes(0)), "0 B");
  EXPECT_EQ(bytes_text(Bytes(1023)), "1023 B");
  EXPECT_EQ(bytes_text(Bytes(1536)), "1.5 KiB");
  EXPECT_EQ(bytes_text(Bytes(200 << 20)), "200 MiB");
  EXPECT_EQ(bytes_text(Bytes(std::int64_t{5} << 30)), "5.0 GiB");
}

TEST(Counted, OneIsSingular) {
  EXPECT_EQ(counted(1, "token"), "1 token");
  EXPECT_EQ(counted(0, "token"), "0 tokens");
}

}  // namespace
}  // namespace kvant::app
