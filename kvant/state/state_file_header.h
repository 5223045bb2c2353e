// The front of a state file: 64 bytes of prelude and the FlatBuffers header. Internal to the room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/base/units.h"
#include "kvant/state/state_file.h"

namespace kvant::state {

// The header and every section begin at multiples of this many bytes; zeros lie between.
inline constexpr std::int64_t kFileAlignment = 64;
// A header describes a page in 48 bytes: enough for five million pages, far below what FlatBuffers
// can hold.
inline constexpr std::int64_t kMaxHeaderBytes = std::int64_t{256} << 20;
// Far above every published model, so that no crafted layout makes a reader work for minutes.
inline constexpr std::int64_t kMaxFileLayers = 4096;

// `bytes` up to the next multiple of kFileAlignment. Requires: far from overflow.
constexpr Bytes aligned(Bytes bytes) {
  return Bytes((bytes.value() + kFileAlignment - 1) / kFileAlignment * kFileAlignment);
}

// The bytes before the first section. Their number does not depend on sections' offsets and
// checksums.
// Errors: kLimitExceeded{actual, expected: layers or bytes}; kOutOfMemory.
Result<std::vector<std::byte>> encode_front(const StateFileHeader& header, Bytes file_bytes);

struct StateFileFront {
  StateFileHeader header;
  Bytes end{0};  // where the first section begins
};

// Reads the front of a file that is as long as `file`. Numbers are what the header says, their
// enumerations known; whether they fit together is not checked.
// Errors: those of StateFile::open that speak of the format, the version, truncation, the header's
// checksum and limits; kOutOfMemory.
Result<StateFileFront> decode_front(std::span<const std::byte> file);

// Of all sections of pages and the block.
Bytes payload_bytes_of(const StateFileHeader& header);

bool begins_like_a_state_file(std::span<const std::byte> bytes);

// What lies between header and sections must be.
bool all_zero(std::span<const std::byte> bytes);

}  // namespace kvant::state
