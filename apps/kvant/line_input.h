// Lines that a user types: with editing and history on a terminal, plain lines otherwise.
// (libedit stays inside line_input.cc.)
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kvant/base/result.h"

namespace kvant::app {

class LineInput {
 public:
  virtual ~LineInput() = default;

  // The next line without its newline; none at the end: of the file, or Ctrl-D, or Ctrl-C twice on
  // an empty line.
  // Errors: kLimitExceeded for a line beyond all reason; kFileReadFailed.
  virtual NamedResult<std::optional<std::string>> next() = 0;
};

// Reads standard input: with editing when it and standard output are a terminal.
// `history_file` is read now and written after every line of a terminal.
// Errors: kFileOpenFailed for a history file that is there and cannot be read.
NamedResult<std::unique_ptr<LineInput>> open_line_input(
    const std::optional<std::string>& history_file);

}  // namespace kvant::app
