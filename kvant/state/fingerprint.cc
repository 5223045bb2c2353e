#include "kvant/state/fingerprint.h"

#include <array>
#include <bit>

namespace kvant::state {
namespace {

// The bytes of a number, the lowest first.
template <class Unsigned>
std::array<std::byte, sizeof(Unsigned)> little_endian(Unsigned number) {
  std::array<std::byte, sizeof(Unsigned)> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((number >> (8 * i)) & 0xFF);
  }
  return bytes;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void add_component(FingerprintBuilder& builder, const ComponentSpec& spec) noexcept {
  const auto number_of = [](auto enumerator) { return static_cast<std::int64_t>(enumerator); };
  builder.add("component.kind", number_of(spec.kind));
  builder.add("component.discipline", number_of(spec.discipline));
  builder.add("component.codec", number_of(spec.codec));
  builder.add("component.n_heads", spec.n_heads.value());
  builder.add("component.row_width", spec.row_width.value());
  builder.add("component.ratio", spec.ratio);
  builder.add("component.window", spec.window.value());
  builder.add("component.group", spec.group.value());
  builder.add("component.overlap_width", spec.overlap_width.value());
  builder.add("component.n_rows", spec.n_rows.value());
  builder.add("component.width", spec.width.value());
  builder.add("component.bound_to_positions", std::int64_t{spec.bound_to_positions ? 1 : 0});
  builder.add("component.initial_value", spec.initial_value);
}

}  // namespace

Result<FingerprintBuilder> FingerprintBuilder::create() {
  Sha256 sha = KVANT_TRY(Sha256::create());
  sha.update(bytes_of("kvant fingerprint"));
  sha.update(little_endian(kFingerprintVersion));
  return FingerprintBuilder(std::move(sha));
}

void FingerprintBuilder::add_field(char type, Tag tag, std::span<const std::byte> value) noexcept {
  const std::array head = {static_cast<std::byte>(type), static_cast<std::byte>(tag.name().size())};
  sha_.update(head);
  sha_.update(bytes_of(tag.name()));
  sha_.update(little_endian(std::uint64_t{value.size()}));
  sha_.update(value);
}

void FingerprintBuilder::add(Tag tag, std::span<const std::byte> bytes) noexcept {
  add_field('b', tag, bytes);
}

void FingerprintBuilder::add(Tag tag, std::string_view text) noexcept {
  add_field('s', tag, bytes_of(text));
}

void FingerprintBuilder::add(Tag tag, std::int64_t number) noexcept {
  add_field('i', tag, little_endian(static_cast<std::uint64_t>(number)));
}

void FingerprintBuilder::add(Tag tag, float number) noexcept {
  add_field('f', tag, little_endian(std::bit_cast<std::uint32_t>(number)));
}

void FingerprintBuilder::add(Tag tag, double number) noexcept {
  add_field('d', tag, little_endian(std::bit_cast<std::uint64_t>(number)));
}

Result<Fingerprint> FingerprintBuilder::finish() noexcept {
  const Digest256 digest = KVANT_TRY(sha_.finish());
  return Fingerprint{.digest = digest};
}

void add_layout(FingerprintBuilder& builder, const Layout& layout) noexcept {
  builder.add("layout.version", kLayoutVersion);
  builder.add("layout.page_positions", layout.page_positions.value());
  builder.add("layout.layers", static_cast<std::int64_t>(layout.layers.size()));
  for (const LayerSpec& layer : layout.layers) {
    builder.add("layer.components", static_cast<std::int64_t>(layer.components.size()));
    for (const ComponentSpec& spec : layer.components) add_component(builder, spec);
  }
}

}  // namespace kvant::state
