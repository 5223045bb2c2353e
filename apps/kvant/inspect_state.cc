#include "apps/kvant/inspect_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "apps/kvant/json.h"
#include "apps/kvant/text.h"
#include "kvant/state/state_file.h"

namespace kvant::app {
namespace {

using state::ComponentSpec;
using state::FileSection;
using state::SectionKind;
using state::StateFile;
using state::StateFileHeader;

// Equal components of several layers.
struct Line {
  ComponentSpec spec;
  std::vector<std::int64_t> layers;
};

std::vector<Line> lines_of(const state::Layout& layout) {
  std::vector<Line> lines;
  for (std::size_t layer = 0; layer < layout.layers.size(); ++layer) {
    for (const ComponentSpec& spec : layout.layers[layer].components) {
      auto same = std::ranges::find(lines, spec, &Line::spec);
      if (same == lines.end()) same = lines.insert(same, {.spec = spec, .layers = {}});
      same->layers.push_back(static_cast<std::int64_t>(layer));
    }
  }
  return lines;
}

// "2 heads of 16 numbers, 1 row for 4 positions"
std::string rows_text(const ComponentSpec& spec) {
  if (spec.discipline == state::Discipline::kRecurrent) {
    return fmt::format("[{}, {}]", spec.n_rows.value(), spec.width.value());
  }
  std::string text = fmt::format("{} of {}", counted(spec.n_heads.value(), "head"),
                                 counted(spec.row_width.value(), "number"));
  if (spec.ratio > 1) text += fmt::format(", a row for {} positions", spec.ratio);
  if (spec.window > Tokens(0)) text += fmt::format(", window {}", spec.window.value());
  if (spec.group > Tokens(0)) text += fmt::format(", groups of {}", spec.group.value());
  return text;
}

std::string_view type_of(const ComponentSpec& spec) {
  return spec.discipline == state::Discipline::kRecurrent ? "f32" : name_of(spec.codec);
}

std::int64_t count_sections(const StateFileHeader& header, SectionKind kind) {
  return std::ranges::count(header.sections, kind, &FileSection::kind);
}

// Numbers of 4 bytes in the sections of a kind.
std::int64_t count_numbers(const StateFileHeader& header, SectionKind kind) {
  Bytes sum{0};
  for (const FileSection& section : header.sections) {
    if (section.kind == kind) sum += section.bytes;
  }
  return sum.value() / 4;
}

std::string text_of(const StateFile& file) {
  const StateFileHeader& header = file.header();
  std::string out = fmt::format(
      "state file         version {}, {}, {} bytes ({})\n"
      "fingerprint        {}\n"
      "lineage            {}\n"
      "position           {}{}\n"
      "beside the state   {}, {}\n"
      "layers             {}, pages of {}\n\n",
      state::kStateFileVersion, name_of(header.form), file.bytes().value(),
      bytes_text(file.bytes()), header.fingerprint.hex(), name_of(header.lineage),
      header.position.value(),
      header.age > header.position.value()
          ? fmt::format(", {} dropped before", header.age - header.position.value())
          : "",
      counted(count_numbers(header, SectionKind::kTokens), "token"),
      counted(count_numbers(header, SectionKind::kLogits), "logit"), header.layout.layers.size(),
      counted(header.layout.page_positions.value(), "position"));
  out += fmt::format("{:<24} {:<20} {:<16} {:<5} {}\n", "layers", "kind", "discipline", "type",
                     "rows");
  for (const Line& line : lines_of(header.layout)) {
    out += fmt::format("{:<24} {:<20} {:<16} {:<5} {}\n", layers_text(line.layers),
                       name_of(line.spec.kind), name_of(line.spec.discipline), type_of(line.spec),
                       rows_text(line.spec));
  }
  if (header.lineage == state::Lineage::kDerived) {
    out += fmt::format("\n{} of keys' positions, {}\n",
                       counted(static_cast<std::int64_t>(header.runs.size()), "run"),
                       counted(static_cast<std::int64_t>(header.pieces.size()), "piece"));
  }
  return out + fmt::format("\n{}, {} bytes of state ({}), all checksums right\n",
                           counted(count_sections(header, SectionKind::kPage), "page"),
                           file.payload_bytes().value(), bytes_text(file.payload_bytes()));
}

Json::Array components_json(const state::Layout& layout) {
  Json::Array out;
  for (std::size_t layer = 0; layer < layout.layers.size(); ++layer) {
    for (const ComponentSpec& spec : layout.layers[layer].components) {
      out.emplace_back(Json::Object{{"layer", layer},
                                    {"kind", name_of(spec.kind)},
                                    {"discipline", name_of(spec.discipline)},
                                    {"dtype", type_of(spec)},
                                    {"n_heads", spec.n_heads},
                                    {"row_width", spec.row_width},
                                    {"ratio", spec.ratio},
                                    {"window", spec.window},
                                    {"group", spec.group},
                                    {"n_rows", spec.n_rows},
                                    {"width", spec.width}});
    }
  }
  return out;
}

Json::Object json_of_file(const StateFile& file) {
  const StateFileHeader& header = file.header();
  Json::Array runs;
  for (const state::PositionRun& run : header.runs) {
    runs.emplace_back(Json::Object{{"first", run.first.value()}, {"delta", run.delta}});
  }
  Json::Array pieces;
  for (const state::RowPiece& piece : header.pieces) {
    pieces.emplace_back(Json::Object{{"group", piece.group},
                                     {"page", piece.page},
                                     {"first_row", piece.first_row},
                                     {"n_rows", piece.n_rows}});
  }
  Json::Array sections;
  for (const FileSection& section : header.sections) {
    sections.emplace_back(Json::Object{{"kind", name_of(section.kind)},
                                       {"group", section.group},
                                       {"page", section.page},
                                       {"offset", section.offset},
                                       {"bytes", section.bytes},
                                       {"xxh3_128", section.checksum.hex()}});
  }
  return {{"format", "state file"},
          {"version", state::kStateFileVersion},
          {"form", name_of(header.form)},
          {"lineage", name_of(header.lineage)},
          {"fingerprint", header.fingerprint.hex()},
          {"position", header.position.value()},
          {"age", header.age},
          {"n_tokens", count_numbers(header, SectionKind::kTokens)},
          {"n_logits", count_numbers(header, SectionKind::kLogits)},
          {"page_positions", header.layout.page_positions},
          {"n_layers", header.layout.layers.size()},
          {"components", components_json(header.layout)},
          {"runs", std::move(runs)},
          {"pieces", std::move(pieces)},
          {"sections", std::move(sections)},
          {"state_bytes", file.payload_bytes()},
          {"bytes", file.bytes()}};
}

}  // namespace

NamedResult<std::string> describe_state_file(const MappedFile& file, OutputForm form) {
  const auto opened = StateFile::open(file.bytes());
  if (!opened) return NamedError(opened.error(), file.path());
  return form == OutputForm::kJson ? to_text(json_of_file(*opened)) : text_of(*opened);
}

}  // namespace kvant::app
