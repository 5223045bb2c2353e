#include "kvant/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "kvant/base/file.h"

namespace kvant {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kOverflow = std::numeric_limits<std::uint64_t>::max();

std::string text_of(const Error& error) { return describe(error); }

// Enumerators of an enum of error.h as {name, number}, read from the header itself, so that a code
// added there is tested without an edit here.
std::map<std::string, int> enumerators(const std::string& enum_name) {
  const auto header = read_text_file(KVANT_SOURCE_DIR "/kvant/base/error.h", Bytes(1 << 20));
  EXPECT_TRUE(header) << describe(header.error());
  const std::size_t begin = header->find("enum class " + enum_name);
  std::istringstream body(header->substr(begin, header->find("};", begin) - begin));
  std::map<std::string, int> found;
  std::string name, equals;
  int number = 0;
  for (std::string line; std::getline(body, line);) {
    std::istringstream words(line);
    if (!(words >> name >> equals >> number) || equals != "=") continue;
    EXPECT_TRUE(found.emplace(name, number).second) << name;
  }
  return found;
}

// kOutOfMemory -> out_of_memory
std::string snake(const std::string& enumerator) {
  std::string out;
  for (const char c : enumerator.substr(1)) {
    if (std::isupper(static_cast<unsigned char>(c)) != 0 && !out.empty()) out += '_';
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

TEST(ErrorCode, EveryCodeHasItsNameAndASentence) {
  const auto codes = enumerators("ErrorCode");
  ASSERT_GE(codes.size(), 40U);
  for (const auto& [name, number] : codes) {
    const auto code = static_cast<ErrorCode>(number);
    EXPECT_EQ(name_of(code), snake(name));
    const std::string text = text_of({.code = code, .actual = 7, .expected = 9});
    EXPECT_THAT(text, Not(HasSubstr("unknown error"))) << name;
    EXPECT_THAT(text, Not(HasSubstr("{"))) << name;
    EXPECT_GE(text.size(), 8U) << name;
  }
}

TEST(ErrorCode, NoNumberIsUsedTwice) {
  std::set<int> numbers;
  for (const auto& [name, number] : enumerators("ErrorCode")) {
    EXPECT_TRUE(numbers.insert(number).second) << name << " = " << number;
  }
}

TEST(ErrorCode, ANumberNobodyKnowsIsCalledUnknown) {
  EXPECT_EQ(name_of(ErrorCode{9999}), "unknown");
  EXPECT_EQ(text_of({.code = ErrorCode{0}}), "unknown error");
}

TEST(ComponentKind, EveryKindHasItsName) {
  const auto kinds = enumerators("ComponentKind");
  ASSERT_GE(kinds.size(), 16U);
  for (const auto& [name, number] : kinds) {
    EXPECT_EQ(name_of(static_cast<ComponentKind>(number)), snake(name));
  }
  EXPECT_EQ(name_of(ComponentKind{200}), "unknown");
}

TEST(ErrorText, SaysWhatWasReceivedAndWhatWasExpected) {
  EXPECT_EQ(text_of({.code = ErrorCode::kStepOutOfOrder, .actual = 5, .expected = 3}),
            "position 5 was given, position 3 is next");
  EXPECT_EQ(text_of({.code = ErrorCode::kTokenOutOfRange, .actual = 70000, .expected = 65536}),
            "token id 70000 is outside the vocabulary of 65536");
}

TEST(ErrorText, NamesLayerAndComponent) {
  EXPECT_EQ(text_of({.code = ErrorCode::kCopyFailed,
                     .component = ComponentKind::kConvState,
                     .layer = 0,
                     .actual = 64}),
            "layer 0: conv_state: a copy of 64 bytes failed");
}

TEST(ErrorText, OutOfMemoryCarriesTheBytesRequestedAndLeft) {
  EXPECT_EQ(text_of({.code = ErrorCode::kOutOfMemory, .actual = 4096}),
            "out of memory: 4096 bytes were requested");
  EXPECT_EQ(text_of({.code = ErrorCode::kOutOfMemory, .actual = 4096, .expected = 100}),
            "out of memory: 4096 bytes were requested, 100 are left");
}

TEST(ErrorText, ASizeThatDoesNotFitIsSaidInWords) {
  EXPECT_EQ(text_of({.code = ErrorCode::kOutOfMemory, .actual = kOverflow}),
            "out of memory: more than 2^64-1 bytes were requested");
}

TEST(ErrorText, APoisonedStateNamesTheRemedy) {
  const std::string text = text_of({.code = ErrorCode::kPoisoned});
  EXPECT_THAT(text, HasSubstr("reset"));
  EXPECT_THAT(text, HasSubstr("restore"));
}

TEST(ErrorText, MemoryStepsThatFailAreToldApart) {
  std::set<std::string> texts;
  for (const ErrorCode code :
       {ErrorCode::kOutOfMemory, ErrorCode::kAllocateFailed, ErrorCode::kViewFailed,
        ErrorCode::kInitialiseFailed, ErrorCode::kCopyFailed, ErrorCode::kDeviceFailed}) {
    texts.insert(text_of({.code = code}));
  }
  EXPECT_EQ(texts.size(), 6U);
}

TEST(ErrorText, TheSystemsCauseIsInWordsAndADevicesIsANumber) {
  EXPECT_EQ(text_of({.code = ErrorCode::kFileOpenFailed, .cause = ENOENT}),
            "cannot open file (No such file or directory)");
  EXPECT_THAT(text_of({.code = ErrorCode::kDeviceFailed, .cause = 719}), HasSubstr("(code 719)"));
}

TEST(NamedError, PutsItsDetailBeforeTheText) {
  EXPECT_EQ(describe(NamedError({.code = ErrorCode::kMissingTensor}, "model.norm.weight")),
            "model.norm.weight: tensor is missing");
  EXPECT_EQ(describe(NamedError(Error{.code = ErrorCode::kMissingTensor})), "tensor is missing");
}

TEST(NamedError, KeepsAtMost256BytesOfDetail) {
  const NamedError error({.code = ErrorCode::kBadJson}, std::string(5000, 'x'));
  EXPECT_EQ(error.detail(), std::string(256, 'x'));
}

TEST(EscapeForDisplay, KeepsPlainTextAndWholeCharacters) {
  EXPECT_EQ(escape_for_display("a b/c\\d", 100), "a b/c\\d");
  // e with acute, euro sign, an emoji, the last code point
  const std::string text = "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82\xF4\x8F\xBF\xBF";
  EXPECT_EQ(escape_for_display(text, 100), text);
}

TEST(EscapeForDisplay, EscapesControlCharactersOfAsciiAndOfTerminals) {
  EXPECT_EQ(escape_for_display("a\nb\tc\x1b[31m\x7f", 100), "a\\nb\\tc\\x1b[31m\\x7f");
  EXPECT_EQ(escape_for_display(std::string("a\0b", 3), 100), "a\\x00b");
  EXPECT_EQ(escape_for_display("\xC2\x9B", 100), "\\xc2\\x9b");  // U+009B starts a terminal command
}

TEST(EscapeForDisplay, EscapesWhatIsNotUtf8) {
  EXPECT_EQ(escape_for_display("\xFF", 100), "\\xff");
  EXPECT_EQ(escape_for_display("\x80", 100), "\\x80");           // continuation alone
  EXPECT_EQ(escape_for_display("\xE2\x82", 100), "\\xe2\\x82");  // cut short
  EXPECT_EQ(escape_for_display("\xC0\xAF", 100), "\\xc0\\xaf");  // overlong
  EXPECT_EQ(escape_for_display("\xE0\x80\xAF", 100), "\\xe0\\x80\\xaf");
  EXPECT_EQ(escape_for_display("\xED\xA0\x80", 100), "\\xed\\xa0\\x80");  // surrogate
  EXPECT_EQ(escape_for_display("\xF4\x90\x80\x80", 100), "\\xf4\\x90\\x80\\x80");
}

TEST(EscapeForDisplay, CutsBetweenCharactersAndBetweenEscapes) {
  EXPECT_EQ(escape_for_display("abcd", 3), "abc");
  EXPECT_EQ(escape_for_display("ab\xE2\x82\xAC", 4), "ab");
  EXPECT_EQ(escape_for_display("ab\xE2\x82\xAC", 5), "ab\xE2\x82\xAC");
  EXPECT_EQ(escape_for_display("ab\n", 3), "ab");
  EXPECT_EQ(escape_for_display("ab\x01", 5), "ab");
  EXPECT_EQ(escape_for_display("abc", 0), "");
}

}  // namespace
}  // namespace kvant
