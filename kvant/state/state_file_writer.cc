#include "kvant/state/state_file_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>

#include "kvant/state/state_file_header.h"
#include "kvant/state/state_sections.h"

namespace kvant::state {
namespace {

// Small enough to stay in the processor's second cache between the copy and the checksum.
constexpr std::size_t kPieceBytes = std::size_t{128} << 10;

// The extents of rows from `first` on.
template <class Each>
void for_each_extent_from(const PageTable& table, Position first, const Each& each) {
  std::int64_t position = table.first().value();
  for (tensor::Extent extent : table.extents(0)) {
    const std::int64_t n_before =
        std::clamp<std::int64_t>(first.value() - position, 0, extent.n_rows);
    position += extent.n_rows;
    extent.first_row += static_cast<std::int32_t>(n_before);
    extent.n_rows -= static_cast<std::int32_t>(n_before);
    if (extent.n_rows > 0) each(extent);
  }
}

std::span<const std::byte> bytes_of(const StateFileOptions& options, SectionKind kind) {
  return kind == SectionKind::kTokens ? std::as_bytes(options.tokens)
                                      : std::as_bytes(options.logits);
}

}  // namespace

// Where sections go: straight into the caller's memory, or through a piece of our own to a sink.
class StateFileWriter::Output {
 public:
  Output(tensor::Device& device, Xxh3Stream& sum, Bytes at) : device_(device), sum_(sum), at_(at) {}

  void write_to(std::span<std::byte> file) { file_ = file; }
  void write_to(StateSink& sink, std::span<std::byte> piece) {
    sink_ = &sink;
    piece_ = piece;
  }

  Status copy(const std::byte* from, std::size_t n) {
    return in_pieces(n, [&](std::span<std::byte> to) {
      const Status copied =
          device_.copy(to.data(), from, Bytes(static_cast<std::int64_t>(to.size())));
      from += to.size();
      return copied;
    });
  }

  Status fill(std::size_t n, float value) {
    const auto pattern = std::bit_cast<std::array<std::byte, sizeof(float)>>(value);
    std::size_t next = 0;
    return in_pieces(n, [&](std::span<std::byte> to) {
      for (std::byte& byte : to) byte = pattern[next++ % pattern.size()];
      return ok();
    });
  }

  // What the caller has on the host.
  Status copy_host(std::span<const std::byte> from) {
    return in_pieces(from.size(), [&](std::span<std::byte> to) {
      std::memcpy(to.data(), from.data(), to.size());
      from = from.subspan(to.size());
      return ok();
    });
  }

  // Ends a section: its checksum. Zeros follow up to the next one.
  Result<Digest128> end_section() {
    KVANT_TRY(sum_up());
    const Digest128 checksum = sum_.digest();
    const std::size_t n_zeros = (aligned(at_ + used()) - at_ - used()).size();
    KVANT_TRY(in_pieces(n_zeros, [](std::span<std::byte> to) {
      std::ranges::fill(to, std::byte{0});
      return ok();
    }));
    KVANT_TRY(hand_on());
    sum_.reset();  // the zeros between sections belong to none
    return checksum;
  }

 private:
  Bytes used() const { return Bytes(static_cast<std::int64_t>(used_)); }
  std::span<std::byte> piece() {
    if (sink_ != nullptr) return piece_;
    const std::size_t left = file_.size() - at_.size();
    return file_.subspan(at_.size(), std::min(kPieceBytes, left));
  }

  template <class Write>
  Status in_pieces(std::size_t n, const Write& write) {
    while (n > 0) {
      if (used_ == piece().size()) KVANT_TRY(hand_on());
      const std::size_t here = std::min(n, piece().size() - used_);
      KVANT_TRY(write(piece().subspan(used_, here)));
      used_ += here;
      n -= here;
    }
    return ok();
  }

  // Adds what is new in the piece to the checksum.
  Status sum_up() {
    if (summed_ == used_) return ok();
    KVANT_TRY(device_.synchronize());
    sum_.update(piece().subspan(summed_, used_ - summed_));
    summed_ = used_;
    return ok();
  }

  Status hand_on() {
    KVANT_TRY(sum_up());
    if (sink_ != nullptr && used_ > 0) KVANT_TRY(sink_->write(at_, piece_.first(used_)));
    at_ += used();
    used_ = summed_ = 0;
    return ok();
  }

  tensor::Device& device_;
  Xxh3Stream& sum_;
  std::span<std::byte> file_{};
  StateSink* sink_ = nullptr;
  std::span<std::byte> piece_{};
  Bytes at_;                // where the piece lies in the file
  std::size_t used_ = 0;    // of the piece
  std::size_t summed_ = 0;  // of those
};

Result<StateFileWriter> StateFileWriter::create(const Snapshot& snapshot,
                                                const StateFileOptions& options) {
  Geometry filed = KVANT_TRY(make_geometry(snapshot.layout()));
  try {
    StateFileWriter writer(snapshot, options, std::move(filed));
    KVANT_TRY(writer.lay_out());
    return writer;
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory};
  }
}

// Throws std::bad_alloc.
Status StateFileWriter::lay_out() {
  const Contents& contents = snapshot_.contents();
  header_.form = options_.form;
  header_.lineage = contents.lineage;
  header_.fingerprint = options_.fingerprint;
  header_.position = contents.position;
  header_.age = contents.age;
  header_.runs = contents.runs;
  header_.layout = snapshot_.layout();
  groups_.resize(filed_.groups.size());
  for (std::size_t group = 0; group < groups_.size(); ++group) place_pages(group);
  if (filed_.block_bytes > Bytes(0)) {
    header_.sections.push_back({.kind = SectionKind::kBlock,
                                .bytes = block_section_bytes({.filed = &filed_,
                                                              .position = header_.position,
                                                              .age = header_.age,
                                                              .form = header_.form})});
  }
  for (const SectionKind kind : {SectionKind::kTokens, SectionKind::kLogits}) {
    const auto bytes = static_cast<std::int64_t>(bytes_of(options_, kind).size());
    if (bytes > 0) header_.sections.push_back({.kind = kind, .bytes = Bytes(bytes)});
  }
  const auto front = KVANT_TRY(encode_front(header_, Bytes(0)));
  first_section_ = Bytes(static_cast<std::int64_t>(front.size()));
  bytes_ = first_section_;
  for (FileSection& section : header_.sections) {
    section.offset = bytes_;
    bytes_ = aligned(bytes_ + section.bytes);
  }
  return ok();
}

// Finds where the rows of a group lie, and adds a section for each page.
void StateFileWriter::place_pages(std::size_t group) {
  const PageTable& table = snapshot_.contents().tables[group];
  const std::int64_t page_positions = filed_.page_positions.value();
  std::vector<const std::byte*>& pages = groups_[group].pages;
  if (table.shifted()) place_cut_pages(group);
  const FiledRows rows(filed_, group, header_.position, pieces_of_group(header_.pieces, group));
  pages.resize(rows.n_pages(), nullptr);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (!table.shifted()) {
      const std::int64_t skipped =
          rows.first().value() / page_positions - table.first().value() / page_positions;
      pages[i] = table.pages()[static_cast<std::size_t>(skipped) + i].data();
    }
    RowPiece whole;
    header_.sections.push_back(
        {.kind = SectionKind::kPage,
         .group = static_cast<std::uint32_t>(group),
         .page = i,
         .bytes = page_section_bytes(filed_.groups[group], filed_, rows.pieces_of(i, whole),
                                     header_.form)});
  }
}

// Lists the pieces of a table that shifts have cut, unless it looks like any other by now.
void StateFileWriter::place_cut_pages(std::size_t group) {
  const PageTable& table = snapshot_.contents().tables[group];
  const FiledRows in_place(filed_, group, header_.position, {});
  std::vector<const std::byte*>& pages = groups_[group].pages;
  std::vector<RowPiece> pieces;
  for_each_extent_from(table, in_place.first(), [&](const tensor::Extent& extent) {
    if (pages.empty() || pages.back() != extent.page) pages.push_back(extent.page);
    pieces.push_back({.group = static_cast<std::uint32_t>(group),
                      .page = static_cast<std::uint32_t>(pages.size() - 1),
                      .first_row = static_cast<std::uint32_t>(extent.first_row),
                      .n_rows = static_cast<std::uint32_t>(extent.n_rows)});
  });
  const bool turned = header_.runs.size() == 1 && header_.runs.front().delta == 0;
  if (turned && in_place.are_in_place(pieces)) return;
  header_.pieces.insert(header_.pieces.end(), pieces.begin(), pieces.end());
}

Bytes StateFileWriter::payload_bytes() const { return payload_bytes_of(header_); }

Status StateFileWriter::write(std::span<std::byte> out) {
  if (out.size() != bytes_.size()) {
    return Error{
        .code = ErrorCode::kInvalidArgument, .actual = out.size(), .expected = bytes_.size()};
  }
  Xxh3Stream sum = KVANT_TRY(Xxh3Stream::create());
  Output output(snapshot_.pool()->device(), sum, first_section_);
  output.write_to(out);
  KVANT_TRY(write_sections(output));
  const auto front = KVANT_TRY(encode_front(header_, bytes_));
  std::ranges::copy(front, out.begin());
  return ok();
}

Status StateFileWriter::write(StateSink& sink) {
  std::vector<std::byte> piece;
  try {
    piece.resize(kPieceBytes);
  } catch (const std::bad_alloc&) {
    return Error{.code = ErrorCode::kOutOfMemory, .actual = kPieceBytes};
  }
  Xxh3Stream sum = KVANT_TRY(Xxh3Stream::create());
  Output output(snapshot_.pool()->device(), sum, first_section_);
  output.write_to(sink, piece);
  KVANT_TRY(write_sections(output));
  const auto front = KVANT_TRY(encode_front(header_, bytes_));
  return sink.write(Bytes(0), front);
}

Status StateFileWriter::write_sections(Output& output) {
  for (FileSection& section : header_.sections) {
    KVANT_TRY(write_section(section, output));
    section.checksum = KVANT_TRY(output.end_section());
  }
  return ok();
}

Status StateFileWriter::write_section(const FileSection& section, Output& output) {
  if (section.kind != SectionKind::kPage && section.kind != SectionKind::kBlock) {
    return output.copy_host(bytes_of(options_, section.kind));
  }
  // Copies what is visited, from the page or block at `data`.
  class Copier final : public SectionVisitor {
   public:
    Copier(Output& to, const std::byte* data) : to_(to), data_(data) {}
    Status live(Bytes offset, Bytes bytes) override {
      return to_.copy(data_ + offset.value(), bytes.size());
    }
    Status dead(Bytes bytes, float value) override { return to_.fill(bytes.size(), value); }

   private:
    Output& to_;
    const std::byte* data_;
  };
  if (section.kind == SectionKind::kBlock) {
    Copier copier(output, snapshot_.contents().block.data());
    return visit_block({.memory = &snapshot_.pool()->geometry(),
                        .filed = &filed_,
                        .position = header_.position,
                        .age = header_.age,
                        .form = header_.form},
                       copier);
  }
  const FiledRows rows(filed_, section.group, header_.position,
                       pieces_of_group(header_.pieces, section.group));
  Copier copier(output, groups_[section.group].pages[section.page]);
  RowPiece whole;
  return visit_page(filed_.groups[section.group], filed_, rows.pieces_of(section.page, whole),
                    header_.form, copier);
}

}  // namespace kvant::state
