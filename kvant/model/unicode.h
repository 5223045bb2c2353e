// What the tokenizer needs to know of Unicode: reading characters from bytes that may be anything,
// the classes of the splitting patterns, and repair of text that is shown to people.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvant::model {

// The classes that the patterns tell apart; each character has exactly one.
enum class CharClass : std::uint8_t {
  kLetter,   // \p{L}
  kNumber,   // \p{N}
  kSpace,    // the character U+0020
  kNewline,  // CR or LF
  kBlank,    // the rest of \s (property White_Space)
  kOther,    // everything else, bytes that are not UTF-8 included
};

struct Char {
  std::uint32_t code = 0;  // U+FFFD for a byte that is not part of a well-formed character
  std::uint32_t n_bytes = 0;
  bool well_formed = false;
};

// The character at the start of `text`, which is not empty. A byte that does not start a
// well-formed character is a character of its own, one byte long.
Char read_char(std::string_view text);

CharClass class_of(std::uint32_t code);

// Appends the UTF-8 form of a code point up to U+10FFFF that is no surrogate.
void append_utf8(std::uint32_t code, std::string& out);

// Makes a stream of bytes valid UTF-8, without waiting longer than it must.
//
// Well-formed characters pass unchanged, as soon as their last byte is there. Each maximal subpart
// of an ill-formed sequence (the longest prefix of some well-formed character, else one byte)
// becomes one U+FFFD: the practice of the Unicode Standard (3.9, U+FFFD substitution of maximal
// subparts) and of web browsers. So E2 82 41 gives U+FFFD 'A', and FF FE gives two U+FFFD.
// How the bytes are cut into pushes does not change the output.
class Utf8Repair {
 public:
  void push(std::string_view bytes, std::string& out);
  // The end: an unfinished character becomes one U+FFFD.
  void flush(std::string& out);

 private:
  std::array<char, 4> pending_{};
  std::uint32_t n_pending_ = 0;  // bytes of an unfinished character, at most 3
};

}  // namespace kvant::model
