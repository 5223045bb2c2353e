// How much memory this process may use.
#pragma once

#include <string_view>

#include "kvant/base/units.h"

namespace kvant {

// The machine's memory, or the limit of the control group that the process is in if that is less.
Bytes physical_memory();

// The value of a line "Name:  123 kB" of /proc/self/status or /proc/meminfo, in bytes; 0 if absent.
Bytes kernel_figure(const char* path, std::string_view name);

}  // namespace kvant
