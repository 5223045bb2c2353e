#include "kvant/model/unicode.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

namespace kvant::model {
namespace {

bool is_scalar(std::uint32_t code) { return code < 0xD800 || (code > 0xDFFF && code < 0x110000); }

std::string repaired(std::string_view bytes) {
  std::string out;
  Utf8Repair repair;
  repair.push(bytes, out);
  repair.flush(out);
  return out;
}

std::string replacements(std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += "\xEF\xBF\xBD";
  return out;
}

TEST(Unicode, EveryCharacterIsWrittenAndReadBack) {
  for (std::uint32_t code = 0; code < 0x110000; ++code) {
    if (!is_scalar(code)) continue;
    std::string text;
    append_utf8(code, text);
    const Char c = read_char(text);
    ASSERT_TRUE(c.well_formed) << code;
    ASSERT_EQ(c.code, code);
    ASSERT_EQ(c.n_bytes, text.size());
  }
}

TEST(Unicode, BytesThatStartNoCharacterAreOneByteEach) {
  for (const std::string_view text :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC3", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF0\x9F\x98", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3(",
        "\xE2\x82("}) {
    const Char c = read_char(text);
    EXPECT_FALSE(c.well_formed);
    EXPECT_EQ(c.n_bytes, 1U);
    EXPECT_EQ(c.code, 0xFFFDU);
  }
}

TEST(Unicode, ClassesOfKnownCharacters) {
  EXPECT_EQ(class_of('a'), CharClass::kLetter);
  EXPECT_EQ(class_of(0x17F), CharClass::kLetter);  // long s
  EXPECT_EQ(class_of(0x4E2D), CharClass::kLetter);
  EXPECT_EQ(class_of(0x2B0), CharClass::kLetter);  // modifier letter, Lm
  EXPECT_EQ(class_of(0x301), CharClass::kOther);   // combining acute, Mn
  EXPECT_EQ(class_of('7'), CharClass::kNumber);
  EXPECT_EQ(class_of(0x663), CharClass::kNumber);   // Arabic-Indic digit, Nd
  EXPECT_EQ(class_of(0x2167), CharClass::kNumber);  // Roman numeral, Nl
  EXPECT_EQ(class_of(0xBD), CharClass::kNumber);    // one half, No
  EXPECT_EQ(class_of(' '), CharClass::kSpace);
  EXPECT_EQ(class_of('\n'), CharClass::kNewline);
  EXPECT_EQ(class_of('\r'), CharClass::kNewline);
  for (const std::uint32_t code : {0x09U, 0x0BU, 0x0CU, 0x85U, 0xA0U, 0x1680U, 0x2009U, 0x2028U,
                                   0x2029U, 0x202FU, 0x205FU, 0x3000U}) {
    EXPECT_EQ(class_of(code), CharClass::kBlank) << code;
  }
  EXPECT_EQ(class_of(0x180E), CharClass::kOther);  // no white space since Unicode 6.3
  EXPECT_EQ(class_of(0x200B), CharClass::kOther);
  EXPECT_EQ(class_of(0x1F600), CharClass::kOther);
  EXPECT_EQ(class_of(0), CharClass::kOther);
  EXPECT_EQ(class_of(0x10FFFF), CharClass::kOther);
}

// The examples of the Unicode Standard, tables 3-8 to 3-11.
TEST(Utf8Repair, ReplacesMaximalSubpartsAsTheStandardShows) {
  EXPECT_EQ(repaired("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), replacements(8) + "A");
  EXPECT_EQ(repaired("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), replacements(8) + "A");
  EXPECT_EQ(repaired("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            replacements(5) + "A" + replacements(2) + "B");
  EXPECT_EQ(repaired("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), replacements(4) + "A");
}

TEST(Utf8Repair, AnUnfinishedCharacterWaitsAndBecomesOneReplacementAtTheEnd) {
  Utf8Repair repair;
  std::string out;
  for (const char c : std::string_view("\xF0\x9F\x98")) repair.push({&c, 1}, out);
  EXPECT_EQ(out, "");
  repair.flush(out);
  EXPECT_EQ(out, replacements(1));
  repair.flush(out);
  EXPECT_EQ(out, replacements(1)) << "nothing is left";
  repair.push("ok", out);
  EXPECT_EQ(out, replacements(1) + "ok");
}

TEST(Utf8Repair, ABrokenCharacterBeforeABlankIsOneReplacement) {
  Utf8Repair repair;
  std::string out;
  repair.push("\xF0\x9F\x98", out);
  repair.push(" next", out);
  EXPECT_EQ(out, replacements(1) + " next");
}

std::string any_bytes() {
  // Mostly bytes that take part in characters, so that near misses are common.
  const auto byte = *rc::gen::container<std::vector<int>>(rc::gen::oneOf(
      rc::gen::inRange(0, 256), rc::gen::inRange(0x80, 0xC0), rc::gen::inRange(0xE0, 0xF6)));
  std::string out;
  for (const int b : byte) out.push_back(static_cast<char>(b));
  return out;
}

RC_GTEST_PROP(Utf8Repair, HowTheBytesAreCutDoesNotChangeTheOutput, ()) {
  const std::string bytes = any_bytes();
  Utf8Repair repair;
  std::string out;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto n = *rc::gen::inRange<std::size_t>(1, 5);
    repair.push(std::string_view(bytes).substr(at, n), out);
    at += n;
  }
  repair.flush(out);
  RC_ASSERT(out == repaired(bytes));
}

RC_GTEST_PROP(Utf8Repair, TheOutputIsAlwaysWellFormedAndWellFormedTextIsUnchanged, ()) {
  const std::string out = repaired(any_bytes());
  for (std::size_t at = 0; at < out.size();) {
    const Char c = read_char(std::string_view(out).substr(at));
    RC_ASSERT(c.well_formed);
    at += c.n_bytes;
  }
  RC_ASSERT(repaired(out) == out);
}

}  // namespace
}  // namespace kvant::model
