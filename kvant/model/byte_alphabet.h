// The alphabet in which byte-level tokenizer files write bytes as printable characters.
//
// A byte whose Latin-1 character is visible (0x21-0x7E, 0xA1-0xAC, 0xAE-0xFF) is written as that
// character; the other 68 bytes are U+0100, U+0101, ... in ascending order. A blank is thus U+0120.
// Source: the byte encoder of GPT-2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvant::model {

// The character that stands for `byte`, as UTF-8.
std::string byte_symbol(std::uint8_t byte);

// The bytes that a text of the alphabet stands for; none if a character is not of the alphabet.
std::optional<std::string> bytes_of_symbols(std::string_view text);

}  // namespace kvant::model
