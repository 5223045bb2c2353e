// Ends a stream of text where one of some strings appears, wherever the pieces are cut.
//
// Text that might still turn out to be the beginning of a stop string is held back: no part of one
// is ever given out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvant::app {

class StopFilter {
 public:
  // Requires: no string is empty.
  explicit StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // The text that is certain to stand before any stop string, often empty.
  // Cost: O(bytes held back and pushed, times the bytes of the stop strings).
  std::string push(std::string_view text);
  // The end of the stream: what was held back.
  std::string flush();
  // The stop string that was found, empty until then; nothing is given out any more.
  const std::string& found() const { return found_; }

 private:
  bool may_begin_stop(std::string_view tail) const;

  std::vector<std::string> stops_;
  std::string held_;
  std::string found_;
};

}  // namespace kvant::app
