// Kinds of flags: each adds one to a verb, checks the text that somebody typed and hands on a
// value.
//
// Templates on the verb, which is a CLI::App: only cli.cc has to know CLI11.
#pragma once

#include <fmt/format.h>

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

template <class Verb, class Set>
auto* add_whole(Verb& verb, Flag flag, Range range, Set set) {
  const auto check = [range](const std::string& text) -> Complaint {
    const auto number = parse_integer(text);
    if (number && *number >= range.least && *number <= range.most) return {};
    return range.most == kNoLimit
               ? fmt::format("'{}' is not a whole number of at least {}", text, range.least)
               : fmt::format("'{}' is not a whole number from {} to {}", text, range.least,
                             range.most);
  };
  return verb
      .template add_option_function<std::string>(
          flag.names, [set](const std::string& text) { set(*parse_integer(text)); }, flag.help)
      ->check(check)
      ->type_name("N");
}

template <class Verb>
auto* add_real(Verb& verb, Flag flag, double& into) {
  const auto check = [](const std::string& text) -> Complaint {
    return parse_number(text) ? Complaint{} : fmt::format("'{}' is not a number", text);
  };
  return verb
      .template add_option_function<std::string>(
          flag.names, [&into](const std::string& text) { into = *parse_number(text); }, flag.help)
      ->check(check)
      ->type_name("X");
}

template <class Verb>
auto* add_bytes(Verb& verb, Flag flag, std::optional<Bytes>& into) {
  const auto check = [](const std::string& text) -> Complaint {
    const auto bytes = parse_bytes(text);
    return bytes && bytes->value() > 0
               ? Complaint{}
               : fmt::format("'{}' is not a size above 0 (512M, 2GiB, 4096)", text);
  };
  return verb
      .template add_option_function<std::string>(
          flag.names, [&into](const std::string& text) { into = parse_bytes(text); }, flag.help)
      ->check(check)
      ->type_name("BYTES");
}

template <class Verb, class Text>
auto* add_text(Verb& verb, Flag flag, Text& into) {
  return verb.template add_option_function<std::string>(
      flag.names, [&into](const std::string& text) { into = text; }, flag.help);
}

// Text that names a file or a directory.
template <class Verb, class Text>
auto* add_path(Verb& verb, Flag flag, Text& into) {
  return add_text(verb, flag, into)->check([](const std::string& text) -> Complaint {
    return text.empty() ? "an empty name names no file" : "";
  });
}

template <class Verb, class Set>
auto* add_switch(Verb& verb, Flag flag, Set set) {
  return verb.add_flag_callback(flag.names, set, flag.help);
}

template <class Verb, class Set>
auto* add_kind(Verb& verb, Flag flag, Set set) {
  const auto check = [](const std::string& text) -> Complaint {
    return codec::kind_from_name(text)
               ? Complaint{}
               : fmt::format("'{}' is not a kind of rows; there are f32, f16 and bf16", text);
  };
  return verb
      .template add_option_function<std::string>(
          flag.names, [set](const std::string& text) { set(*codec::kind_from_name(text)); },
          flag.help)
      ->check(check)
      ->type_name("KIND");
}

}  // namespace kvant::app
