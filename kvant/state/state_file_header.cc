#include "kvant/state/state_file_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <new>

#include "state_file_generated.h"

namespace kvant::state {
namespace {

static_assert(std::endian::native == std::endian::little,
              "state files are little-endian, and so are the hosts that this reader is for");

// "KVSTATE" and a byte that ends a text file on some systems.
constexpr std::array<char, 8> kMagic = {'K', 'V', 'S', 'T', 'A', 'T', 'E', '\x1A'};

struct Prelude {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t header_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t reserved = 0;  // 0
  // XXH3-128 of the 32 bytes above and the header.
  std::uint64_t checksum_low = 0;
  std::uint64_t checksum_high = 0;
  std::array<std::uint64_t, 2> padding{};  // 0
};
static_assert(sizeof(Prelude) == kFileAlignment);
constexpr std::size_t kSummedPreludeBytes = offsetof(Prelude, checksum_low);

Error bad_format() { return Error{.code = ErrorCode::kBadFormat}; }

std::span<const std::byte> bytes_of(const Prelude& prelude) {
  return std::as_bytes(std::span(&prelude, 1));
}

Result<Digest128> front_checksum(const Prelude& prelude, std::span<const std::byte> header) {
  Xxh3Stream stream = KVANT_TRY(Xxh3Stream::create());
  stream.update(bytes_of(prelude).first(kSummedPreludeBytes));
  stream.update(header);
  return stream.digest();
}

Status check_layers(std::size_t n) {
  if (n <= kMaxFileLayers) return ok();
  return Error{.code = ErrorCode::kLimitExceeded, .actual = n, .expected = kMaxFileLayers};
}

template <class To, class From, class Convert>
std::vector<To> converted(const std::vector<From>& from, const Convert& convert) {
  std::vector<To> to;
  to.reserve(from.size());
  for (const From& item : from) to.push_back(convert(item));
  return to;
}

schema::Component to_schema(const ComponentSpec& spec) {
  return {static_cast<std::uint8_t>(spec.kind),
          static_cast<std::uint8_t>(spec.discipline),
          static_cast<std::uint8_t>(spec.codec),
          static_cast<std::uint8_t>(spec.bound_to_positions ? 1 : 0),
          spec.initial_value,
          spec.n_heads.value(),
          spec.row_width.value(),
          spec.ratio,
          spec.window.value(),
          spec.group.value(),
          spec.overlap_width.value(),
          spec.n_rows.value(),
          spec.width.value()};
}

// Kinds and codecs are checked by the caller, disciplines by Layout::validate.
ComponentSpec from_schema(const schema::Component& component) {
  return {.kind = static_cast<ComponentKind>(component.kind()),
          .discipline = static_cast<Discipline>(component.discipline()),
          .codec = static_cast<codec::Kind>(component.codec()),
          .n_heads = Heads(component.n_heads()),
          .row_width = Elements(component.row_width()),
          .ratio = component.ratio(),
          .window = Tokens(component.window()),
          .group = Tokens(component.group()),
          .overlap_width = Elements(component.overlap_width()),
          .n_rows = Rows(component.n_rows()),
          .width = Elements(component.width()),
          .bound_to_positions = component.bound_to_positions() != 0,
          .initial_value = component.initial_value()};
}

schema::Section to_schema(const FileSection& section) {
  return {static_cast<std::uint32_t>(section.kind),
          section.group,
          section.page,
          section.offset.size(),
          section.bytes.size(),
          section.checksum.low,
          section.checksum.high};
}

schema::Digest to_schema(const Fingerprint& fingerprint) {
  schema::Digest digest;
  static_assert(sizeof(digest) == sizeof(fingerprint.digest.bytes));
  std::memcpy(&digest, fingerprint.digest.bytes.data(), sizeof(digest));
  return digest;
}

void build(flatbuffers::FlatBufferBuilder& builder, const StateFileHeader& header) {
  std::vector<std::uint32_t> layer_components;
  std::vector<schema::Component> components;
  for (const LayerSpec& layer : header.layout.layers) {
    layer_components.push_back(static_cast<std::uint32_t>(layer.components.size()));
    for (const ComponentSpec& spec : layer.components) components.push_back(to_schema(spec));
  }
  const auto runs = converted<schema::Run>(header.runs, [](const PositionRun& run) {
    return schema::Run(run.first.value(), run.delta);
  });
  const auto pieces = converted<schema::Piece>(header.pieces, [](const RowPiece& piece) {
    return schema::Piece(piece.group, piece.page, piece.first_row, piece.n_rows);
  });
  const auto sections = converted<schema::Section>(
      header.sections, [](const FileSection& section) { return to_schema(section); });
  const schema::Digest fingerprint = to_schema(header.fingerprint);
  builder.Finish(schema::CreateHeader(
      builder, static_cast<std::uint8_t>(header.form), static_cast<std::uint8_t>(header.lineage),
      static_cast<std::uint32_t>(header.layout.page_positions.value()), header.position.value(),
      header.age, &fingerprint, builder.CreateVectorOfStructs(runs),
      builder.CreateVector(layer_components), builder.CreateVectorOfStructs(components),
      builder.CreateVectorOfStructs(pieces), builder.CreateVectorOfStructs(sections)));
}

// Reads what the file begins with, and checks that the header lies in it.
Result<Prelude> read_prelude(std::span<const std::byte> file) {
  if (!begins_like_a_state_file(file)) return bad_format();
  Prelude prelude;
  std::memcpy(&prelude, file.data(), std::min(file.size(), sizeof(prelude)));
  const auto truncated = [&](std::uint64_t expected) {
    return Error{.code = ErrorCode::kFileTruncated, .actual = file.size(), .expected = expected};
  };
  // The version counts before all else: another one may mean other things by what follows.
  if (file.size() < offsetof(Prelude, header_bytes)) return truncated(sizeof(Prelude));
  if (prelude.version != kStateFileVersion) {
    return Error{
        .code = ErrorCode::kStateVersion, .actual = prelude.version, .expected = kStateFileVersion};
  }
  if (file.size() < sizeof(Prelude)) return truncated(sizeof(Prelude));
  if (file.size() < prelude.file_bytes) return truncated(prelude.file_bytes);
  if (file.size() > prelude.file_bytes) return bad_format();
  const std::size_t room = std::min<std::size_t>(file.size() - sizeof(Prelude), kMaxHeaderBytes);
  if (prelude.header_bytes > room) {
    return Error{
        .code = ErrorCode::kHeaderTooLong, .actual = prelude.header_bytes, .expected = room};
  }
  if (prelude.reserved != 0 || prelude.padding != std::array<std::uint64_t, 2>{}) {
    return bad_format();
  }
  return prelude;
}

bool is_known(const schema::Component& component) {
  return component.kind() <= static_cast<std::uint8_t>(ComponentKind::kRecurrentState) &&
         component.discipline() <= static_cast<std::uint8_t>(Discipline::kRecurrent) &&
         component.codec() <= static_cast<std::uint8_t>(codec::Kind::kBf16) &&
         component.bound_to_positions() <= 1;
}

Result<Layout> read_layout(const schema::Header& from) {
  Layout layout;
  KVANT_TRY(check_layers(from.layer_components()->size()));
  layout.page_positions = Tokens(from.page_positions());
  layout.layers.reserve(from.layer_components()->size());
  const auto& components = *from.components();
  flatbuffers::uoffset_t next = 0;
  for (const std::uint32_t n : *from.layer_components()) {
    if (n > components.size() - next) return bad_format();
    LayerSpec& layer = layout.layers.emplace_back();
    layer.components.reserve(n);
    for (std::uint32_t i = 0; i < n; ++i) {
      const schema::Component& component = *components.Get(next++);
      if (!is_known(component)) return bad_format();
      layer.components.push_back(from_schema(component));
    }
  }
  if (next != components.size()) return bad_format();
  return layout;
}

Result<std::vector<FileSection>> read_sections(const schema::Header& from) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::vector<FileSection> sections;
  sections.reserve(from.sections()->size());
  for (const schema::Section* section : *from.sections()) {
    if (section->kind() > static_cast<std::uint32_t>(SectionKind::kLogits)) return bad_format();
    if (section->offset() > kMost || section->bytes() > kMost) return bad_format();
    sections.push_back(
        {.kind = static_cast<SectionKind>(section->kind()),
         .group = section->group(),
         .page = section->page(),
         .offset = Bytes(static_cast<std::int64_t>(section->offset())),
         .bytes = Bytes(static_cast<std::int64_t>(section->bytes())),
         .checksum = {.high = section->checksum_high(), .low = section->checksum_low()}});
  }
  return sections;
}

// The verifier of FlatBuffers 2 does not ask whether the structs of a vector lie where the
// processor wants their numbers.
template <class Struct>
bool is_aligned(const flatbuffers::Vector<const Struct*>& structs) {
  return reinterpret_cast<std::uintptr_t>(structs.Data()) % alignof(Struct) == 0;
}

Result<StateFileHeader> read_header(const schema::Header& from) {
  const bool all_aligned = is_aligned(*from.runs()) && is_aligned(*from.components()) &&
                           is_aligned(*from.pieces()) && is_aligned(*from.sections());
  if (!all_aligned) return bad_format();
  if (from.form() > static_cast<std::uint8_t>(StateForm::kFull)) return bad_format();
  if (from.lineage() > static_cast<std::uint8_t>(Lineage::kDerived)) return bad_format();
  StateFileHeader header;
  header.form = static_cast<StateForm>(from.form());
  header.lineage = static_cast<Lineage>(from.lineage());
  std::memcpy(header.fingerprint.digest.bytes.data(), from.fingerprint(), sizeof(schema::Digest));
  header.position = Position(from.position());
  header.age = from.age();
  header.runs.reserve(from.runs()->size());
  for (const schema::Run* run : *from.runs()) {
    header.runs.push_back({.first = Position(run->first()), .delta = run->delta()});
  }
  header.layout = KVANT_TRY(read_layout(from));
  header.pieces.reserve(from.pieces()->size());
  for (const schema::Piece* piece : *from.pieces()) {
    header.pieces.push_back({.group = piece->group(),
                             .page = piece->page(),
                             .first_row = piece->first_row(),
                             .n_rows = piece->n_rows()});
  }
  header.sections = KVANT_TRY(read_sections(from));
  return header;
}

}  // namespace

Bytes payload_bytes_of(const StateFileHeader& header) {
  Bytes sum{0};
  for (const FileSection& section : header.sections) {
    const bool is_state = section.kind == SectionKind::kPage || section.kind == SectionKind::kBlock;
    if (is_state) sum += section.bytes;
  }
  return sum;
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

bool begins_like_a_state_file(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() &&
         std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

Result<std::vector<std::byte>> encode_front(const StateFileHeader& header, Bytes file_bytes) {
  KVANT_TRY(check_layers(header.layout.layers.size()));
  try {
    flatbuffers::FlatBufferBuilder builder;
    build(builder, header);
    if (builder.GetSize() > kMaxHeaderBytes) {
      return Error{.code = ErrorCode::kLimitExceeded,
                   .actual = builder.GetSize(),
                   .expected = static_cast<std::uint64_t>(kMaxHeaderBytes)};
    }
    const auto encoded = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
    Prelude prelude{.magic = kMagic,
                    .version = kStateFileVersion,
                    .header_bytes = builder.GetSize(),
                    .file_bytes = file_bytes.size()};
    const Digest128 checksum = KVANT_TRY(front_checksum(prelude, encoded));
    prelude.checksum_low = checksum.low;
    prelude.checksum_high = checksum.high;
    const Bytes end = aligned(Bytes(static_cast<std::int64_t>(sizeof(prelude) + encoded.size())));
    std::vector<std::byte> front(end.size());
    std::memcpy(front.data(), &prelude, sizeof(prelude));
    std::memcpy(front.data() + sizeof(prelude), encoded.data(), encoded.size());
    return front;
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

Result<StateFileFront> decode_front(std::span<const std::byte> file) {
  const Prelude prelude = KVANT_TRY(read_prelude(file));
  const auto encoded = file.subspan(sizeof(Prelude), prelude.header_bytes);
  const Digest128 checksum = KVANT_TRY(front_checksum(prelude, encoded));
  if (checksum != Digest128{.high = prelude.checksum_high, .low = prelude.checksum_low}) {
    return Error{.code = ErrorCode::kChecksumMismatch};
  }
  const Bytes end = aligned(Bytes(static_cast<std::int64_t>(sizeof(Prelude) + encoded.size())));
  if (end.size() > file.size()) {
    return Error{.code = ErrorCode::kFileTruncated, .actual = file.size(), .expected = end.size()};
  }
  const std::size_t encoded_end = sizeof(Prelude) + encoded.size();
  if (!all_zero(file.subspan(encoded_end, end.size() - encoded_end))) return bad_format();
  try {
    // Words, since the caller's bytes may lie at any address and the header's numbers may not.
    std::vector<std::uint64_t> words(encoded.size() / sizeof(std::uint64_t) + 1);
    std::memcpy(words.data(), encoded.data(), encoded.size());
    flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(words.data()),
                                   encoded.size());
    if (!schema::VerifyHeaderBuffer(verifier)) return bad_format();
    StateFileFront front{.header = {}, .end = end};
    front.header = KVANT_TRY(read_header(*schema::GetHeader(words.data())));
    return front;
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

}  // namespace kvant::state
