// Digests of every kernel's output on generated inputs: the proof, on any machine, that its kernels
// give the bits of docs/numerics.md.
//
// tests/golden/numerics.json holds the digests that the scalar reference gives. A changed digest
// means that some bit moved: it needs a new kNumericsVersion and a changelog line.
//
//   {"numerics": "cpu-1.0", "digests": {"add": "<32 hexadecimal digits>", ...}}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/hash.h"
#include "kvant/base/result.h"
#include "kvant/kernels/kernel_table.h"

namespace kvant::kernels {

struct NumericsDigest {
  std::string name;  // kernel and types: "matmul/bf16"
  std::string hex;   // XXH3-128 of all that its cases wrote

  friend bool operator==(const NumericsDigest&, const NumericsDigest&) = default;
};

// Runs every kernel of a table on all cases. Cost: about a second with `ref`.
std::vector<NumericsDigest> numerics_digests(const KernelTable& table);

// Runs every kernel and compares.
// Errors: kDigestMismatch naming the target and the first kernel whose digest differs or is
// missing from `expected`.
NamedStatus check_numerics(const KernelTable& table, const std::vector<NumericsDigest>& expected);

// The text of a digests file, and back.
// Errors: kBadJson; kBadFormat for another structure; kBadValue naming the file's numerics version
// when it is not kNumericsVersion.
std::string numerics_json(const std::vector<NumericsDigest>& digests);
NamedResult<std::vector<NumericsDigest>> parse_numerics_json(std::string_view text);

}  // namespace kvant::kernels
