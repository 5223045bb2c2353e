// The JSON files and templates of a model's directory. Internal to the room.
//
// Only a name that is not there counts as absent. A file that cannot be reached (a loop of links, a
// folder that may not be searched) is an error, since going on without it could change the results.
#pragma once

#include <optional>
#include <string>

#include "kvant/base/result.h"
#include "kvant/base/units.h"

namespace kvant::model {

// Errors: those of read_text_file, but for a file that is not there: nothing is returned.
NamedResult<std::optional<std::string>> read_optional_file(const std::string& path,
                                                           Bytes max_bytes);

// Errors: kMissingFile for a file that is not there; else those of read_text_file.
NamedResult<std::string> read_needed_file(const std::string& path, Bytes max_bytes);

}  // namespace kvant::model
