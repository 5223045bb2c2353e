// Kinds of flags: each adds one to a verb, checks the text that somebody typed and hands on a
// value.
//
// For cli.cc alone, which is the one file that knows CLI11.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "apps/kvant/text.h"
#include "kvant/base/units.h"
#include "kvant/codec/kind.h"

namespace kvant::app {

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// Bounds that make a number usable at all; what it means for a model is checked with the model.
struct Range {
  std::int64_t least = 0;
  std::int64_t most = kNoLimit;
};

struct Flag {
  const char* names;
  const char* help;
};

// What a validator says: why the text is refused, or nothing.
using Complaint = std::string;

template <class Set>
CLI::Option* add_whole(CLI::App& verb, Flag flag, Range range, Set set) {
  const auto check = [range](const std::string& text) -> Complaint {
    const auto number = parse_integer(text);
    if (number && *number >= range.least && *number <= range.most) return {};
    return range.most == kNoLimit
               ? fmt::format("'{}' is not a whole number of at least {}", text, range.least)
               : fmt::format("'{}' is not a whole number from {} to {}", text, range.least,
                             range.most);
  };
  return verb
      .add_option_function<std::string>(
          flag.names, [set](const std::string& text) { set(*parse_integer(text)); }, flag.help)
      ->check(check)
      ->type_name("N");
}

inline CLI::Option* add_real(CLI::App& verb, Flag flag, double& into) {
  const auto check = [](const std::string& text) -> Complaint {
    return parse_number(text) ? Complaint{} : fmt::format("'{}' is not a number", text);
  };
  return verb
      .add_option_function<std::string>(
          flag.names, [&into](const std::string& text) { into = *parse_number(text); }, flag.help)
      ->check(check)
      ->type_name("X");
}

inline CLI::Option* add_bytes(CLI::App& verb, Flag flag, std::optional<Bytes>& into) {
  const auto check = [](const std::string& text) -> Complaint {
    const auto bytes = parse_bytes(text);
    return bytes && bytes->value() > 0
               ? Complaint{}
               : fmt::format("'{}' is not a size above 0 (512M, 2GiB, 4096)", text);
  };
  return verb
      .add_option_function<std::string>(
          flag.names, [&into](const std::string& text) { into = parse_bytes(text); }, flag.help)
      ->check(check)
      ->type_name("BYTES");
}

template <class Text>
CLI::Option* add_text(CLI::App& verb, Flag flag, Text& into) {
  return verb.add_option_function<std::string>(
      flag.names, [&into](const std::string& text) { into = text; }, flag.help);
}

// Text that names a file or a directory.
template <class Text>
CLI::Option* add_path(CLI::App& verb, Flag flag, Text& into) {
  return add_text(verb, flag, into)->check([](const std::string& text) -> Complaint {
    return text.empty() ? "an empty name names no file" : "";
  });
}

template <class Set>
CLI::Option* add_switch(CLI::App& verb, Flag flag, Set set) {
  return verb.add_flag_callback(flag.names, set, flag.help);
}

template <class Set>
CLI::Option* add_kind(CLI::App& verb, Flag flag, Set set) {
  const auto check = [](const std::string& text) -> Complaint {
    return codec::kind_from_name(text)
               ? Complaint{}
               : fmt::format("'{}' is not a kind of rows; there are f32, f16 and bf16", text);
  };
  return verb
      .add_option_function<std::string>(
          flag.names, [set](const std::string& text) { set(*codec::kind_from_name(text)); },
          flag.help)
      ->check(check)
      ->type_name("KIND");
}

}  // namespace kvant::app
