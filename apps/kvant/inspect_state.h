// What `kvant inspect` says of a state file (docs/formats/state.md).
#pragma once

#include <string>

#include "apps/kvant/options.h"
#include "kvant/base/file.h"
#include "kvant/base/result.h"

namespace kvant::app {

// Text for people or JSON. A file that is described has passed every check, its checksums too.
// Errors: those of state::StateFile::open, with the path.
NamedResult<std::string> describe_state_file(const MappedFile& file, OutputForm form);

}  // namespace kvant::app
