// Starts the built program as its users do, and sees what they see.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kvant::e2e {

using Arguments = std::vector<std::string>;

struct Outcome {
  int exit_code = -1;  // minus the signal's number if one ended the program
  std::string out;
  std::string err;
  std::int64_t peak_rss_bytes = 0;

  // Lines of standard error.
  std::int64_t n_err_lines() const;
};

// Runs the program with `input` as its standard input, to its end.
Outcome run(const Arguments& arguments, std::string_view input = "");
// The same with standard output into a file, /dev/full say, or into a pipe that nobody reads.
Outcome run_into_file(const Arguments& arguments, const std::string& path);
Outcome run_into_closed_pipe(const Arguments& arguments);
// The same without any standard output.
Outcome run_without_output(const Arguments& arguments);

// A program that goes on while the test talks with it. Reads wait; ctest's timeout ends a test that
// waits for ever.
class Conversation {
 public:
  explicit Conversation(const Arguments& arguments);
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  void type(std::string_view text) const;
  void interrupt() const;
  // Reads until `text` has appeared since the last call, or the end; returns what was read.
  std::string read_out_until(std::string_view text) const { return read_until(out_, text); }
  std::string read_err_until(std::string_view text) const { return read_until(err_, text); }
  // Closes standard input, reads the rest and waits for the end.
  Outcome finish();

 private:
  static std::string read_until(int descriptor, std::string_view text);

  pid_t child_ = -1;
  int in_ = -1;
  int out_ = -1;
  int err_ = -1;
};

// The value at a JSON pointer ("/figures/decode_tokens") of a JSON text, as JSON without blanks;
// "(no JSON)" or "(absent)" otherwise.
std::string json_at(const std::string& text, const std::string& pointer);
std::int64_t integer_at(const std::string& text, const std::string& pointer);

// A folder that goes away with the test.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path(std::string_view name = "") const;
  // Writes a file below it; returns its path.
  std::string write(std::string_view name, std::string_view text) const;
  // Copies the files of a directory into it.
  void copy_from(const std::string& directory) const;

 private:
  std::filesystem::path path_;
};

std::string read_whole(const std::string& path);

// Paths in the source tree.
std::string source(std::string_view path);
// The bundled model.
std::string tinyworld();

}  // namespace kvant::e2e
