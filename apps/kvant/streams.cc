#include "apps/kvant/streams.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

namespace kvant::app {
namespace {

// Room for a NamedError's detail and its sentence.
constexpr std::size_t kMaxLineBytes = 1024;

// 0, or the errno of the write that failed.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(descriptor, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

}  // namespace

Streams::Streams(Descriptors descriptors)
    : out_(descriptors.out),
      err_(descriptors.err),
      err_is_terminal_(::isatty(descriptors.err) == 1) {}

void Streams::print(std::string_view text) {
  if (out_error_ == 0) out_error_ = write_all(out_, text);
}

void Streams::note(std::string_view line) { draw(fmt::format("{}\n", line)); }

// Nobody is left to tell when standard error is gone.
void Streams::draw(std::string_view text) { static_cast<void>(write_all(err_, text)); }

int Streams::fail(std::string_view what) {
  note(fmt::format("kvant: {}", escape_for_display(what, kMaxLineBytes)));
  return kFailure;
}

int Streams::fail(const NamedError& error) { return fail(describe(error)); }

int Streams::fail_usage(std::string_view what) {
  fail(what);
  return kUsage;
}

void ProgressLine::update(std::int64_t done, std::int64_t all) {
  constexpr double kPatience = 1.0;  // seconds of work before anything is shown
  constexpr double kInterval = 0.1;  // seconds between two drawings
  const double now = watch_.seconds();
  if (!streams_.err_is_terminal() || now < kPatience || now - drawn_at_ < kInterval) return;
  drawn_at_ = now;
  visible_ = true;
  streams_.draw(fmt::format("\r{}: {} of {}\x1b[K", what_, done, all));
}

void ProgressLine::clear() {
  if (visible_) streams_.draw("\r\x1b[K");
  visible_ = false;
}

}  // namespace kvant::app
