// Counts what a test program takes from the heap. Linking counting_new.cc replaces operator new of
// the whole program.
#pragma once

#include <cstdint>

namespace kvant::test {

// Calls of operator new, of every form, since the program began.
// Threads: any.
std::int64_t n_allocations();

// Lets the k-th call of operator new from now on (from 0) fail, once; negative: none.
void fail_allocation(std::int64_t k);

}  // namespace kvant::test
