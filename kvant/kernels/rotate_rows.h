// Turns stored keys in place, so that they stand for positions further on or back.
//
// A context shift usually leaves keys as they are and turns the queries instead (QueryVariant).
// This is the other way: afterwards the rows hold what a run that began at the new positions would
// have stored, up to the roundings of one more rotation and of the rows' type. Rows of F16 and BF16
// are rounded once a call, so the error grows with the number of shifts.
//
// Rejected: turning by the old position back and by the new one forth, which rounds twice.
//
// Source: shift_kv_with_rope of cera 0.2.6, whose cases are in rotate_rows_test.cc.
#pragma once

#include "kvant/kernels/kernel_table.h"
#include "kvant/tensor/paged_rows.h"

namespace kvant::kernels {

struct RowRotation {
  tensor::PagedRows rows = {};  // exactly the rows of its extents are turned; row_width is even
  // Of the difference of positions: RopeFrequencies::angles(Tokens), negative to go back.
  const float* cos = nullptr;  // [row_width / 2]
  const float* sin = nullptr;  // [row_width / 2]
  RopePairing pairing = RopePairing::kNeox;
};

// Turns every head of the rows. Requires: rows of F32, F16 or BF16 that nobody else reads or
// writes meanwhile.
// Threads: any number at once on different rows. Cost: reads and writes the rows once, on the
// calling thread; allocates nothing.
void rotate_rows(const KernelTable& table, const RowRotation& rotation);

}  // namespace kvant::kernels
