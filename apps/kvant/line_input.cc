#include "apps/kvant/line_input.h"

#include <histedit.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <string_view>

namespace kvant::app {
namespace {

constexpr std::size_t kMaxLineBytes = 16 << 20;
constexpr int kHistoryLines = 1000;

NamedError read_failed(int cause) {
  return {Error{.code = ErrorCode::kFileReadFailed, .cause = cause}, "standard input"};
}

NamedError too_long() {
  return {Error{.code = ErrorCode::kLimitExceeded,
                .actual = kMaxLineBytes + 1,
                .expected = kMaxLineBytes},
          "bytes of a line"};
}

// Standard input that is a file or a pipe.
class PlainInput final : public LineInput {
 public:
  NamedResult<std::optional<std::string>> next() override {
    std::string line;
    for (int c = std::getc(stdin); c != EOF && c != '\n'; c = std::getc(stdin)) {
      if (line.size() == kMaxLineBytes) return too_long();
      line += static_cast<char>(c);
    }
    if (std::ferror(stdin) != 0) return read_failed(errno);
    if (line.empty() && std::feof(stdin) != 0) return std::optional<std::string>();
    return std::optional(std::move(line));
  }
};

// What the editor's callbacks need; libedit hands them its EditLine, which carries this.
struct EditorState {
  bool interrupted_before = false;  // the last key was Ctrl-C on an empty line
  bool interrupted = false;         // Ctrl-C ended this line
};

EditorState& state_of(EditLine* editor) {
  void* state = nullptr;
  el_get(editor, EL_CLIENTDATA, &state);
  return *static_cast<EditorState*>(state);
}

bool line_is_empty(EditLine* editor) {
  const LineInfo* line = el_line(editor);
  return line->lastchar == line->buffer;
}

// Ctrl-C drops what was typed; on an empty line it asks, and the second time ends the input.
unsigned char on_interrupt_key(EditLine* editor, int) {
  EditorState& state = state_of(editor);
  if (line_is_empty(editor) && state.interrupted_before) return CC_EOF;
  state.interrupted = true;
  return CC_NEWLINE;
}

unsigned char on_suspend_key(EditLine* editor, int) {
  el_set(editor, EL_PREP_TERM, 0);
  ::raise(SIGTSTP);  // returns when the program is in the foreground again
  el_set(editor, EL_PREP_TERM, 1);
  return CC_REDISPLAY;
}

char* prompt_text(EditLine*) {
  static char text[] = "> ";  // libedit wants it writable and never writes
  return text;
}

class TerminalInput final : public LineInput {
 public:
  static NamedResult<std::unique_ptr<LineInput>> open(
      const std::optional<std::string>& history_file) {
    std::unique_ptr<TerminalInput> input(new TerminalInput);
    input->history_file_ = history_file;
    if (!input->start()) {
      return NamedError(Error{.code = ErrorCode::kUnsupported}, "line editing on this terminal");
    }
    if (history_file && ::access(history_file->c_str(), F_OK) == 0) {
      HistEvent event;
      if (::history(input->history_, &event, H_LOAD, history_file->c_str()) < 0) {
        return NamedError(Error{.code = ErrorCode::kFileOpenFailed, .cause = errno}, *history_file);
      }
    }
    return std::unique_ptr<LineInput>(std::move(input));
  }

  ~TerminalInput() override {
    if (editor_ != nullptr) el_end(editor_);
    if (history_ != nullptr) ::history_end(history_);
  }
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;

  NamedResult<std::optional<std::string>> next() override {
    while (true) {
      int n_bytes = 0;
      state_.interrupted = false;
      errno = 0;
      const char* typed = el_gets(editor_, &n_bytes);
      if (state_.interrupted) {
        warn_after_interrupt(typed == nullptr || n_bytes <= 0);
        continue;
      }
      if (typed == nullptr && n_bytes < 0 && errno != 0) return read_failed(errno);
      if (typed == nullptr || n_bytes <= 0) {
        std::puts("");  // the shell's prompt begins a line
        std::fflush(stdout);
        return std::optional<std::string>();
      }
      std::string line(typed, static_cast<std::size_t>(n_bytes));
      while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
      state_.interrupted_before = false;
      if (line.size() > kMaxLineBytes) return too_long();
      remember(line);
      return std::optional(std::move(line));
    }
  }

 private:
  TerminalInput() = default;

  bool start() {
    // How wide the characters of a line are. Nothing else in the program asks the locale.
    std::setlocale(LC_CTYPE, "");  // NOLINT(concurrency-mt-unsafe)
    editor_ = el_init("kvant", stdin, stdout, stderr);
    history_ = ::history_init();
    if (editor_ == nullptr || history_ == nullptr) return false;
    HistEvent event;
    ::history(history_, &event, H_SETSIZE, kHistoryLines);
    ::history(history_, &event, H_SETUNIQUE, 1);
    el_set(editor_, EL_CLIENTDATA, &state_);
    el_set(editor_, EL_PROMPT, prompt_text);
    el_set(editor_, EL_HIST, ::history, history_);
    el_set(editor_, EL_EDITOR, "emacs");
    // While a line is edited Ctrl-C and Ctrl-Z are keys: a signal in the middle of a read would
    // leave the terminal in the editor's mode.
    el_set(editor_, EL_SETTY, "-d", "-isig", nullptr);
    el_set(editor_, EL_ADDFN, "kvant-interrupt", "Drop the line", on_interrupt_key);
    el_set(editor_, EL_ADDFN, "kvant-suspend", "Suspend the program", on_suspend_key);
    el_set(editor_, EL_BIND, "^C", "kvant-interrupt", nullptr);
    el_set(editor_, EL_BIND, "^Z", "kvant-suspend", nullptr);
    return true;
  }

  // The editor has left the cursor behind what was typed.
  void warn_after_interrupt(bool was_empty) {
    std::fputs(was_empty ? "^C (again, or Ctrl-D or /quit, to end the chat)\n" : "^C\n", stdout);
    std::fflush(stdout);
    state_.interrupted_before = was_empty;
  }

  // A history that cannot be written is no reason to stop a conversation.
  void remember(const std::string& line) {
    HistEvent event;
    if (!line.empty()) ::history(history_, &event, H_ENTER, line.c_str());
    if (history_file_) ::history(history_, &event, H_SAVE, history_file_->c_str());
  }

  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
  EditorState state_;
  std::optional<std::string> history_file_;
};

}  // namespace

NamedResult<std::unique_ptr<LineInput>> open_line_input(
    const std::optional<std::string>& history_file) {
  if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) {
    return TerminalInput::open(history_file);
  }
  return std::unique_ptr<LineInput>(std::make_unique<PlainInput>());
}

}  // namespace kvant::app
