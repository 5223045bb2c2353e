#include "kvant/state/fingerprint.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/state_worlds.h"

namespace kvant::state {
namespace {

template <class Add>
std::string fingerprint_of(const Add& add) {
  FingerprintBuilder builder = FingerprintBuilder::create().value();
  add(builder);
  return builder.finish().value().hex();
}

std::string fingerprint_of(const Layout& layout) {
  return fingerprint_of([&](FingerprintBuilder& builder) { add_layout(builder, layout); });
}

// The vectors of docs/formats/state.md, made there by Python's hashlib and struct from the format's
// description.
TEST(Fingerprint, AgreesWithTheDocumentedVectors) {
  EXPECT_EQ(fingerprint_of([](FingerprintBuilder&) {}),
            "5219c762738238c5f21c9999233440e920c2cfb12e7708fbc6a8b175758fcea6");
  EXPECT_EQ(fingerprint_of([](FingerprintBuilder& builder) {
              const std::array bytes = {std::byte{0x00}, std::byte{0xFF}};
              builder.add("bytes", bytes);
              builder.add("text", std::string_view("lfm2"));
              builder.add("number", std::int64_t{-2});
              builder.add("float", 1.5F);
              builder.add("double", -0.0);
            }),
            "2fd8f5f8936f258cd007bdc600712b3097c49cc296da50c33a10be81a1885fe2");
  EXPECT_EQ(fingerprint_of(test::mixed_layout(4)),
            "b93510524cb2c48b50ae91261b058f0969195ad1177b70a4a334cd38729bc557");
}

// One layer of three components that use every field.
Layout layout_with_every_field() {
  Layout layout;
  layout.page_positions = Tokens(8);
  layout.layers = {{{{.kind = ComponentKind::kWindowKv,
                      .discipline = Discipline::kWindowedAppend,
                      .codec = codec::Kind::kBf16,
                      .n_heads = Heads(3),
                      .row_width = Elements(5),
                      .window = Tokens(6)},
                     {.kind = ComponentKind::kIndexerKvState,
                      .discipline = Discipline::kRing,
                      .n_heads = Heads(1),
                      .row_width = Elements(4),
                      .window = Tokens(8),
                      .group = Tokens(4),
                      .overlap_width = Elements(2),
                      .initial_value = -1.0F},
                     {.kind = ComponentKind::kRecurrentState,
                      .discipline = Discipline::kRecurrent,
                      .n_rows = Rows(7),
                      .width = Elements(9),
                      .bound_to_positions = true,
                      .initial_value = 0.5F}}}};
  return layout;
}

TEST(Fingerprint, KnowsEveryFieldOfALayout) {
  const Layout layout = layout_with_every_field();
  const std::string before = fingerprint_of(layout);
  EXPECT_EQ(before, "2177211f16abb77112c7a4e9d1a4cbebff4e10f2f423e7f9f9d5e4c5c45e61b5");

  const std::vector<std::function<void(ComponentSpec&)>> changes = {
      [](ComponentSpec& spec) { spec.kind = ComponentKind::kKeys; },
      [](ComponentSpec& spec) { spec.discipline = Discipline::kAppend; },
      [](ComponentSpec& spec) { spec.codec = codec::Kind::kF16; },
      [](ComponentSpec& spec) { spec.n_heads += Heads(1); },
      [](ComponentSpec& spec) { spec.row_width += Elements(1); },
      [](ComponentSpec& spec) { spec.ratio += 1; },
      [](ComponentSpec& spec) { spec.window += Tokens(1); },
      [](ComponentSpec& spec) { spec.group += Tokens(1); },
      [](ComponentSpec& spec) { spec.overlap_width += Elements(1); },
      [](ComponentSpec& spec) { spec.n_rows += Rows(1); },
      [](ComponentSpec& spec) { spec.width += Elements(1); },
      [](ComponentSpec& spec) { spec.bound_to_positions = !spec.bound_to_positions; },
      [](ComponentSpec& spec) { spec.initial_value = spec.initial_value == 0 ? -0.0F : 0.0F; }};
  std::set<std::string> seen = {before};
  for (std::size_t component = 0; component < 3; ++component) {
    for (std::size_t change = 0; change < changes.size(); ++change) {
      Layout other = layout;
      ComponentSpec& spec = other.layers[0].components[component];
      changes[change](spec);
      if (spec == layout.layers[0].components[component]) continue;  // it was so already
      EXPECT_TRUE(seen.insert(fingerprint_of(other)).second) << component << ", " << change;
    }
  }
  EXPECT_GE(seen.size(), 3 * changes.size() - 1);
  Layout pages = layout;
  pages.page_positions = Tokens(16);
  EXPECT_TRUE(seen.insert(fingerprint_of(pages)).second);
}

// The same components, cut into layers in another way.
TEST(Fingerprint, KnowsWhichLayerAComponentBelongsTo) {
  const Layout one = layout_with_every_field();
  const auto& all = one.layers[0].components;
  Layout two = one;
  two.layers = {{{all[0]}}, {{all[1], all[2]}}};
  Layout other = one;
  other.layers = {{{all[0], all[1]}}, {{all[2]}}};
  Layout empty = one;
  empty.layers.push_back({});
  const std::set<std::string> seen = {fingerprint_of(one), fingerprint_of(two),
                                      fingerprint_of(other), fingerprint_of(empty)};
  EXPECT_EQ(seen.size(), 4U);
}

TEST(Fingerprint, FieldsDoNotRunIntoEachOther) {
  const auto texts = [](std::string_view first, std::string_view second) {
    return fingerprint_of([&](FingerprintBuilder& builder) {
      builder.add("t", first);
      builder.add("t", second);
    });
  };
  EXPECT_EQ(texts("ab", "c"), "3d6603aca8bab1deb7dbc738a11a871da1c0fefd4b843c4c7b9106563a64f5d9");
  EXPECT_EQ(texts("a", "bc"), "e51eb0fbf42d21299dfa4853c82669206b069a59860d780484831b26a1804f27");
  // The same value bytes under another tag or type.
  const std::string number =
      fingerprint_of([](FingerprintBuilder& builder) { builder.add("t", std::int64_t{0}); });
  EXPECT_NE(number, fingerprint_of([](FingerprintBuilder& builder) { builder.add("t", 0.0); }));
  EXPECT_NE(number,
            fingerprint_of([](FingerprintBuilder& builder) { builder.add("u", std::int64_t{0}); }));
}

}  // namespace
}  // namespace kvant::state
