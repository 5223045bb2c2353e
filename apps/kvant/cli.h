// The command line: flags into options. (CLI11 stays inside cli.cc.)
#pragma once

#include <span>
#include <string>
#include <variant>

#include "apps/kvant/options.h"
#include "kvant/base/log.h"

namespace kvant::app {

// What the command line asks for.
struct Command {
  VerbOptions options;
  LogLevel log_level = LogLevel::kWarning;
};
struct HelpText {
  std::string text;  // for standard output; the program succeeds
};
struct UsageError {
  std::string what;  // one line for standard error
};

// `arguments` are those after the program's name.
std::variant<Command, HelpText, UsageError> parse_command_line(std::span<char* const> arguments);

}  // namespace kvant::app
