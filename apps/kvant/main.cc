// kvant: the command-line program.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "apps/kvant/cli.h"
#include "apps/kvant/streams.h"
#include "apps/kvant/verbs.h"

namespace kvant::app {
namespace {

// A mapped file whose tail was cut off raises SIGBUS on the next touch; there is no way back into
// the code that was reading. Several threads may get there; the first speaks for all.
extern "C" void on_bus_error(int) {
  static std::atomic_flag taken = ATOMIC_FLAG_INIT;
  while (taken.test_and_set()) ::pause();
  constexpr std::string_view kLine = "kvant: a mapped file changed or shrank while in use\n";
  static_cast<void>(!::write(STDERR_FILENO, kLine.data(), kLine.size()));
  ::_exit(kFailure);
}

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_bus_error;
  ::sigaction(SIGBUS, &action, nullptr);
  // A closed pipe is then a failed write, which Streams remembers.
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
}

// A program started without standard streams would get their numbers for its model files, and
// print into them. What takes their place refuses to be read and to be printed to, so that whoever
// relies on a closed stream hears of it; complaints alone may get lost.
void open_missing_streams() {
  constexpr std::array kModes = {O_WRONLY, O_RDONLY, O_WRONLY};
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) {
      ::open("/dev/null", kModes[static_cast<std::size_t>(descriptor)]);
    }
  }
}

int run_command(const Command& command, Streams& streams) {
  set_log_level(command.log_level);
  return std::visit([&](const auto& options) { return run_verb(options, streams); },
                    command.options);
}

int run(std::span<char* const> arguments, Streams& streams) {
  const auto parsed = parse_command_line(arguments);
  if (const auto* error = std::get_if<UsageError>(&parsed)) return streams.fail_usage(error->what);
  int code = kOk;
  if (const auto* help = std::get_if<HelpText>(&parsed)) {
    streams.print(help->text);
  } else {
    code = run_command(std::get<Command>(parsed), streams);
  }
  if (!streams.broken()) return code;
  // Whoever closed the pipe has seen enough; everything else is a failure to tell about.
  if (streams.out_error() != EPIPE) {
    streams.fail(std::string("cannot write to standard output: ") +
                 std::system_category().message(streams.out_error()));
  }
  return kFailure;
}

}  // namespace
}  // namespace kvant::app

int main(int argc, char** argv) {
  namespace app = kvant::app;
  app::open_missing_streams();
  app::install_signal_handlers();
  app::Streams streams({});
  try {
    const std::span<char* const> all(argv, static_cast<std::size_t>(argc));
    return app::run(all.subspan(all.empty() ? 0 : 1), streams);
  } catch (const std::bad_alloc&) {
    // Nothing here may need memory.
    streams.draw("kvant: out of memory\n");
  } catch (const std::exception& error) {
    streams.draw("kvant: ");
    streams.draw(error.what());
    streams.draw("\n");
  }
  return app::kFailure;
}
