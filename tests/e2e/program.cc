#include "tests/e2e/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace kvant::e2e {
namespace {

struct Descriptors {
  int in = -1;
  int out = -1;
  int err = -1;
};

pid_t start(const Arguments& arguments, const Descriptors& descriptors) {
  std::vector<std::string> words = {KVANT_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::dup2(descriptors.in, STDIN_FILENO);
  if (descriptors.out < 0) ::close(STDOUT_FILENO);
  ::dup2(descriptors.out, STDOUT_FILENO);
  ::dup2(descriptors.err, STDERR_FILENO);
  ::execv(KVANT_PROGRAM, pointers.data());
  ::_exit(127);
}

Outcome wait_for(pid_t child) {
  int status = 0;
  struct rusage usage = {};
  EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  outcome.peak_rss_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  return outcome;
}

// A file without a name.
class Scratch {
 public:
  explicit Scratch(std::string_view text = "") : file_(std::tmpfile()) {
    EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), file_), text.size());
    std::rewind(file_);
  }
  ~Scratch() { std::fclose(file_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  int descriptor() const { return ::fileno(file_); }
  std::string text() const {
    std::rewind(file_);
    std::string out;
    for (int c = std::getc(file_); c != EOF; c = std::getc(file_)) out += static_cast<char>(c);
    return out;
  }

 private:
  std::FILE* file_;
};

Outcome run_with_output(const Arguments& arguments, int out) {
  const Scratch in;
  const Scratch err;
  Outcome outcome =
      wait_for(start(arguments, {.in = in.descriptor(), .out = out, .err = err.descriptor()}));
  outcome.err = err.text();
  return outcome;
}

}  // namespace

std::int64_t Outcome::n_err_lines() const { return std::ranges::count(err, '\n'); }

Outcome run(const Arguments& arguments, std::string_view input) {
  const Scratch in(input);
  const Scratch out;
  const Scratch err;
  Outcome outcome = wait_for(
      start(arguments, {.in = in.descriptor(), .out = out.descriptor(), .err = err.descriptor()}));
  outcome.out = out.text();
  outcome.err = err.text();
  return outcome;
}

Outcome run_into_file(const Arguments& arguments, const std::string& path) {
  const int out = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT_GE(out, 0) << path;
  Outcome outcome = run_with_output(arguments, out);
  ::close(out);
  return outcome;
}

Outcome run_into_closed_pipe(const Arguments& arguments) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  ::close(ends[0]);
  Outcome outcome = run_with_output(arguments, ends[1]);
  ::close(ends[1]);
  return outcome;
}

Outcome run_without_output(const Arguments& arguments) { return run_with_output(arguments, -1); }

Conversation::Conversation(const Arguments& arguments) {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  for (auto* ends : {&in, &out, &err}) EXPECT_EQ(::pipe2(ends->data(), O_CLOEXEC), 0);
  child_ = start(arguments, {.in = in[0], .out = out[1], .err = err[1]});
  in_ = in[1];
  out_ = out[0];
  err_ = err[0];
  for (const int other_end : {in[0], out[1], err[1]}) ::close(other_end);
}

Conversation::~Conversation() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    wait_for(child_);
  }
  for (const int descriptor : {in_, out_, err_}) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

void Conversation::type(std::string_view text) const {
  EXPECT_EQ(::write(in_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

void Conversation::interrupt() const { EXPECT_EQ(::kill(child_, SIGINT), 0); }

std::string Conversation::read_until(int descriptor, std::string_view text) {
  std::string seen;
  char c = 0;
  while (text.empty() || seen.find(text) == std::string::npos) {
    if (::read(descriptor, &c, 1) != 1) break;
    seen += c;
  }
  return seen;
}

// Standard error is read last: what the tests let the program say there fits a pipe.
Outcome Conversation::finish() {
  ::close(std::exchange(in_, -1));
  std::string out = read_until(out_, "");
  std::string err = read_until(err_, "");
  Outcome outcome = wait_for(std::exchange(child_, -1));
  outcome.out = std::move(out);
  outcome.err = std::move(err);
  return outcome;
}

std::string json_at(const std::string& text, const std::string& pointer) {
  const auto document = nlohmann::json::parse(text, nullptr, false);
  if (document.is_discarded()) return "(no JSON)";
  const nlohmann::json::json_pointer place(pointer);
  return document.contains(place) ? document.at(place).dump() : "(absent)";
}

std::int64_t integer_at(const std::string& text, const std::string& pointer) {
  const std::string value = json_at(text, pointer);
  std::int64_t number = -1;
  std::istringstream(value) >> number;
  EXPECT_EQ(std::to_string(number), value) << pointer << " of " << text;
  return number;
}

Folder::Folder() {
  std::string name = testing::TempDir() + "kvant-e2e-XXXXXX";
  EXPECT_NE(::mkdtemp(name.data()), nullptr) << name;
  path_ = name;
}

Folder::~Folder() { std::filesystem::remove_all(path_); }

std::string Folder::path(std::string_view name) const { return (path_ / name).string(); }

std::string Folder::write(std::string_view name, std::string_view text) const {
  std::ofstream file(path_ / name, std::ios::binary);
  file << text;
  EXPECT_TRUE(file.flush().good()) << name;
  return path(name);
}

void Folder::copy_from(const std::string& directory) const {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    write(entry.path().filename().string(), read_whole(entry.path().string()));
  }
}

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string source(std::string_view path) {
  return std::string(KVANT_SOURCE_DIR) + "/" + std::string(path);
}

std::string tinyworld() { return source("models/tinyworld-lfm2"); }

}  // namespace kvant::e2e
