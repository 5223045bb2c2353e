#include <fmt/format.h>
#include <simdjson.h>

#include <new>
#include <string_view>

#include "kvant/base/file.h"
#include "kvant/engine/eval.h"

namespace kvant::engine {
namespace {

constexpr Bytes kMostBytes{std::int64_t{1} << 30};

NamedError bad_line(ErrorCode code, const std::string& path, std::size_t line,
                    std::string_view what) {
  return {Error{.code = code}, fmt::format("{}:{}: {}", path, line, what)};
}

NamedResult<RecallCase> parse_case(simdjson::dom::parser& parser, std::string_view line,
                                   const std::string& path, std::size_t number) {
  simdjson::dom::element object;
  if (parser.parse(line.data(), line.size()).get(object) != simdjson::SUCCESS) {
    return bad_line(ErrorCode::kBadJson, path, number, "one JSON object a line is expected");
  }
  std::string_view prompt;
  std::string_view answer;
  std::int64_t people = 0;
  if (object["prompt"].get(prompt) != simdjson::SUCCESS ||
      object["answer"].get(answer) != simdjson::SUCCESS ||
      object["people"].get(people) != simdjson::SUCCESS) {
    return bad_line(ErrorCode::kMissingKey, path, number,
                    "needs strings \"prompt\" and \"answer\" and a number \"people\"");
  }
  return RecallCase{.prompt = std::string(prompt), .answer = std::string(answer), .people = people};
}

}  // namespace

NamedResult<std::vector<RecallCase>> read_recall(const std::string& path) {
  const std::string text = KVANT_TRY(read_text_file(path, kMostBytes));
  try {
    std::vector<RecallCase> cases;
    simdjson::dom::parser parser;
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = std::string_view(text).substr(begin, end - begin);
      begin = end + 1;
      ++number;
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      cases.push_back(KVANT_TRY(parse_case(parser, line, path, number)));
    }
    if (cases.empty()) return NamedError(Error{.code = ErrorCode::kBadFormat}, path);
    return cases;
  } catch (const std::bad_alloc&) {
    return NamedError(Error{.code = ErrorCode::kOutOfMemory}, path);
  }
}

}  // namespace kvant::engine
