// Where the program's words go: results to standard output, everything else to standard error.
//
// Standard output is written piece by piece, unbuffered, so that text streams. When its reader has
// gone (a closed pipe) or it cannot take more (a full disk), the rest is dropped and `broken` says
// so; the program then ends with exit code 1, in the first case without a word.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvant/base/clock.h"
#include "kvant/base/error.h"

namespace kvant::app {

// Exit codes of the program.
inline constexpr int kOk = 0;
inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;

class Streams {
 public:
  // File descriptors that stay open and belong to the caller.
  struct Descriptors {
    int out = 1;
    int err = 2;
  };
  explicit Streams(Descriptors descriptors);

  // To standard output, as it is.
  void print(std::string_view text);
  // To standard error, with a newline at the end.
  void note(std::string_view line);
  // To standard error, as it is: progress.
  void draw(std::string_view text);

  // Prints `kvant: <what>` on one line of standard error; returns the exit code.
  int fail(const NamedError& error);
  int fail(std::string_view what);
  int fail_usage(std::string_view what);

  bool err_is_terminal() const { return err_is_terminal_; }
  // False once standard output refused text; 0: it was never refused, else why (errno).
  bool broken() const { return out_error_ != 0; }
  int out_error() const { return out_error_; }

 private:
  int out_;
  int err_;
  int out_error_ = 0;
  bool err_is_terminal_;
};

// One line on standard error that shows how far a long piece of work is: only on a terminal, only
// once the work has taken a second, and gone when the work is done.
class ProgressLine {
 public:
  ProgressLine(Streams& streams, std::string what) : streams_(streams), what_(std::move(what)) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(std::int64_t done, std::int64_t all);
  void clear();

 private:
  Streams& streams_;
  std::string what_;
  Stopwatch watch_;
  double drawn_at_ = 0.0;
  bool visible_ = false;
};

}  // namespace kvant::app
