// The example of docs/formats/state.md, byte for byte. Its layout, checksums and fingerprint were
// checked there with tools that share no code with this program: Python's struct and hashlib, and
// xxhsum.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "kvant/base/file.h"
#include "kvant/state/sequence.h"
#include "kvant/state/state_file_writer.h"
#include "tests/support/reference_state.h"
#include "tests/support/state_worlds.h"
#include "tests/support/test_device.h"

namespace kvant::state {
namespace {

// The bytes of the only dump in the page.
std::vector<std::byte> documented_bytes() {
  const std::string page =
      read_text_file(KVANT_SOURCE_DIR "/docs/formats/state.md", Bytes(1 << 20)).value();
  std::vector<std::byte> bytes;
  std::size_t at = page.find("\n0000  ");
  while (at != std::string::npos && page.compare(at, 4, "\n```") != 0) {
    const std::size_t end = page.find('\n', at + 1);
    std::string digits = page.substr(at + 7, end - at - 7);
    std::erase(digits, ' ');
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
      bytes.push_back(static_cast<std::byte>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    }
    at = end;
  }
  return bytes;
}

constexpr std::array<TokenId, 2> kTokens = {7, 42};

Layout example_layout() {
  Layout layout;
  layout.page_positions = Tokens(4);
  layout.layers = {{{test::append_spec(ComponentKind::kKeys, codec::Kind::kF32, 1, 2)}},
                   {{test::recurrent_spec(ComponentKind::kConvState, 1, 3, 0.0F)}}};
  return layout;
}

Fingerprint example_fingerprint() {
  FingerprintBuilder builder = FingerprintBuilder::create().value();
  add_layout(builder, example_layout());
  return builder.finish().value();
}

TEST(StateFileExample, IsWhatIsWritten) {
  test::TestDevice device;
  const auto pool =
      PagePool::create(device, make_plan(example_layout(), {.context = Tokens(8)}).value()).value();
  Sequence sequence = Sequence::create(pool, Tokens(8)).value();
  ASSERT_TRUE(sequence.prepare(Tokens(2)));
  const auto keys = sequence.rows(LayerIndex(0), ComponentKind::kKeys).value();
  float next = 1.0F;
  test::for_each_row(keys, [&](std::int64_t, const tensor::Extent& extent, std::int64_t row) {
    for (const int column : {0, 1}) {
      test::store(keys.row_at(extent, 0, row) + 4 * column, tensor::Dtype::kF32, next++);
    }
  });
  const auto conv = sequence.recurrent(LayerIndex(1), ComponentKind::kConvState).value();
  std::ranges::copy(std::array{-1.0F, 0.0F, 0.5F}, conv.begin());
  ASSERT_TRUE(sequence.commit(Position(0), Tokens(2)));

  auto writer = StateFileWriter::create(sequence.snapshot().value(),
                                        {.fingerprint = example_fingerprint(), .tokens = kTokens})
                    .value();
  std::vector<std::byte> bytes(writer.bytes().size());
  ASSERT_TRUE(writer.write(std::span(bytes)));
  EXPECT_EQ(bytes, documented_bytes());
}

TEST(StateFileExample, IsReadAsItsTextSays) {
  const std::vector<std::byte> bytes = documented_bytes();
  ASSERT_EQ(bytes.size(), 0x2C0U);
  const StateFile file = StateFile::open(bytes).value();
  EXPECT_EQ(file.header().position, Position(2));
  EXPECT_EQ(file.header().layout, example_layout());
  EXPECT_EQ(file.header().fingerprint.hex(),
            "d836945969406fc62ef5ff7f367508297286ba40b7c7304b689279138b4ccdf0");
  EXPECT_TRUE(std::ranges::equal(file.tokens().value(), kTokens));
  test::TestDevice device;
  const auto pool =
      PagePool::create(device, make_plan(example_layout(), {.context = Tokens(8)}).value()).value();
  Sequence sequence = Sequence::create(pool, Tokens(8)).value();
  ASSERT_TRUE(file.restore(sequence, example_fingerprint()));
  const auto conv = sequence.read_recurrent(LayerIndex(1), ComponentKind::kConvState).value();
  EXPECT_TRUE(std::ranges::equal(conv, std::array{-1.0F, 0.0F, 0.5F}));
  const auto keys = sequence.read_rows(LayerIndex(0), ComponentKind::kKeys).value();
  EXPECT_EQ(test::load(keys.row_at(keys.extents[0], 0, 1), tensor::Dtype::kF32), 3.0F);
}

}  // namespace
}  // namespace kvant::state
