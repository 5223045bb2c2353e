#include "apps/kvant/stop_filter.h"

#include <algorithm>
#include <utility>

namespace kvant::app {

std::string StopFilter::push(std::string_view text) {
  if (!found_.empty()) return {};
  held_ += text;
  // The stop string that is complete first wins, the longest of those that end at one place: so
  // how the text is cut into pieces makes no difference.
  std::size_t n_certain = 0;
  std::size_t first_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const std::size_t end = at + stop.size();
    if (end > first_end || (end == first_end && at > n_certain)) continue;
    first_end = end;
    n_certain = at;
    found_ = stop;
  }
  if (found_.empty()) {
    while (n_certain < held_.size() && !may_begin_stop(std::string_view(held_).substr(n_certain))) {
      n_certain += 1;
    }
  }
  std::string certain = held_.substr(0, n_certain);
  held_.erase(0, found_.empty() ? n_certain : held_.size());
  return certain;
}

std::string StopFilter::flush() { return std::exchange(held_, {}); }

bool StopFilter::may_begin_stop(std::string_view tail) const {
  return std::ranges::any_of(
      stops_, [&](const std::string& stop) { return std::string_view(stop).starts_with(tail); });
}

}  // namespace kvant::app
