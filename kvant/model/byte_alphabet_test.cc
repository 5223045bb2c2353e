#include "kvant/model/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace kvant::model {
namespace {

TEST(ByteAlphabet, EveryByteHasASymbolOfItsOwnAndComesBack) {
  std::set<std::string> symbols;
  std::string all;
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    symbols.insert(byte_symbol(static_cast<std::uint8_t>(byte)));
    all += byte_symbol(static_cast<std::uint8_t>(byte));
    bytes.push_back(static_cast<char>(byte));
  }
  EXPECT_EQ(symbols.size(), 256U);
  EXPECT_EQ(bytes_of_symbols(all), bytes);
}

TEST(ByteAlphabet, KnownSymbols) {
  EXPECT_EQ(byte_symbol('a'), "a");
  EXPECT_EQ(byte_symbol(' '), "\u0120");
  EXPECT_EQ(byte_symbol('\n'), "\u010A");
  EXPECT_EQ(byte_symbol(0), "\u0100");
  EXPECT_EQ(byte_symbol(0xAD), "\u0143") << "the last of the 68";
  EXPECT_EQ(byte_symbol(0xE9), "\u00E9");
}

TEST(ByteAlphabet, TextOutsideItIsNotRead) {
  EXPECT_EQ(bytes_of_symbols("a b"), std::nullopt);
  EXPECT_EQ(bytes_of_symbols("\u0144"), std::nullopt);
  EXPECT_EQ(bytes_of_symbols("\u00AD"), std::nullopt);
  EXPECT_EQ(bytes_of_symbols("\xFF"), std::nullopt);
  EXPECT_EQ(bytes_of_symbols(""), "");
}

}  // namespace
}  // namespace kvant::model
