// Log lines of the library: warnings and notes that are nobody's return value. They go to stderr;
// the program sets the level. spdlog stays inside log.cc.
#pragma once

#include <string_view>

namespace kvant {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// Threads: any.
void set_log_level(LogLevel level);
void log_line(LogLevel level, std::string_view text);

inline void log_info(std::string_view text) { log_line(LogLevel::kInfo, text); }
inline void log_warning(std::string_view text) { log_line(LogLevel::kWarning, text); }

}  // namespace kvant
