// The splitting patterns as PCRE2 runs them: the judge of the hand-written splitter.
//
// PCRE2 wants valid UTF-8, the splitter takes any bytes, each stray one an "other" character. So a
// stray byte is shown to PCRE2 as U+FFFD, which is of no class either, and the ends are mapped
// back. Two differences remain, which judges() tells: PCRE2 counts U+180E as white space, as
// Unicode did until 6.3, and its tables may be older than ours and lack the youngest characters.
//
// Needs PCRE2_CODE_UNIT_WIDTH=8 from the build.
#pragma once

#include <pcre2.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/model/unicode.h"

namespace kvant::test {

class SplitOracle {
 public:
  explicit SplitOracle(std::string_view regex)
      : code_(compile(regex)),
        doubtful_(compile(R"([\p{Cn}\x{180E}])")),
        match_(pcre2_match_data_create_from_pattern(code_.get(), nullptr)) {}

  // False when the text has a character that the oracle does not know or reads otherwise.
  bool judges(std::string_view text) const {
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
      const model::Char c = model::read_char(text.substr(at));
      model::append_utf8(c.code, shown);
      at += c.n_bytes;
    }
    return pcre2_match(doubtful_.get(), reinterpret_cast<PCRE2_SPTR>(shown.data()), shown.size(), 0,
                       0, match_.get(), nullptr) == PCRE2_ERROR_NOMATCH;
  }

  // Where each word of `text` ends.
  std::vector<std::size_t> ends(std::string_view text) const {
    std::string shown;
    std::vector<std::size_t> original;  // of each byte of `shown`
    for (std::size_t at = 0; at < text.size();) {
      const model::Char c = model::read_char(text.substr(at));
      const std::size_t before = shown.size();
      model::append_utf8(c.code, shown);
      original.insert(original.end(), shown.size() - before, at);
      at += c.n_bytes;
    }
    original.push_back(text.size());

    std::vector<std::size_t> out;
    for (std::size_t at = 0; at < shown.size();) {
      const int n = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(shown.data()),
                                shown.size(), at, PCRE2_ANCHORED, match_.get(), nullptr);
      const std::size_t end = n < 1 ? at : pcre2_get_ovector_pointer(match_.get())[1];
      if (end <= at) throw std::runtime_error("the oracle found no word");
      at = end;
      out.push_back(original[at]);
    }
    return out;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  using Code = std::unique_ptr<pcre2_code, Free>;
  static Code compile(std::string_view regex) {
    int code = 0;
    PCRE2_SIZE offset = 0;
    Code out(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(),
                           PCRE2_UTF | PCRE2_UCP, &code, &offset, nullptr));
    if (!out) throw std::runtime_error("the oracle's pattern does not compile");
    return out;
  }

  Code code_;
  Code doubtful_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

inline constexpr std::string_view kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace kvant::test
