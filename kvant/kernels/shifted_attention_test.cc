// Attention of a sequence whose keys stand elsewhere than where they were stored: queries turned
// for each extent's delta must see what turned keys would show.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kvant/base/prng.h"
#include "kvant/kernels/ops.h"
#include "kvant/kernels/rope_frequencies.h"
#include "kvant/kernels/rotate_rows.h"
#include "tests/support/target_test.h"

namespace kvant::kernels {
namespace {

using tensor::Dtype;

constexpr std::int64_t kPage = 64;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kKvHeads = 2;
constexpr std::int64_t kDim = 16;
constexpr float kScale = 0.25F;
constexpr double kTheta = 1e4;

std::size_t size_of(std::int64_t n) { return static_cast<std::size_t>(n); }

std::vector<float> uniform_numbers(std::uint64_t seed, std::int64_t n) {
  Xoshiro256 random(seed);
  std::vector<float> out(size_of(n));
  for (float& number : out) number = random.next_signed_float();
  return out;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Rows [begin, end) as they were stored, and what is added to their positions.
struct Run {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t position_delta = 0;
};

struct ShiftedCase {
  std::vector<Run> runs;  // ascending; each row is stored at most once
  RopePairing pairing = RopePairing::kNeox;
  std::vector<float> factors = {};
};

// A sequence with holes: keys turned by the positions they were stored at, and the queries of
// every logical position.
class Sequence {
 public:
  explicit Sequence(ShiftedCase c)
      : case_(std::move(c)),
        rope_(*RopeFrequencies::create(
            {.theta = kTheta, .head_dim = kDim, .factors = case_.factors})),
        n_stored_(case_.runs.back().end) {
    const std::int64_t n_pages = (n_stored_ + kPage - 1) / kPage;
    raw_keys_ = uniform_numbers(1, n_pages * kPage * kKvHeads * kDim);
    keys_ = raw_keys_;
    values_ = uniform_numbers(2, n_pages * kPage * kKvHeads * kDim);
    for (std::int64_t row = 0; row < n_stored_; ++row) {
      for (std::int64_t head = 0; head < kKvHeads; ++head) {
        turn(keys_.data() + place(row, head), 1, Position(row));
      }
    }
    for (const Run& run : case_.runs) n_rows_ += run.end - run.begin;
    q_ = uniform_numbers(3, n_rows_ * kHeads * kDim);
  }

  std::int64_t n_rows() const { return n_rows_; }

  // Turns the stored keys so that they were stored where they stand.
  void turn_keys(const KernelTable& table) {
    for (Run& run : case_.runs) {
      std::vector<tensor::Extent> extents;
      add_extents(keys_, run, extents);
      std::vector<float> cos(size_of(kDim / 2));
      std::vector<float> sin(size_of(kDim / 2));
      rope_.angles(Tokens(run.position_delta), cos.data(), sin.data());
      rotate_rows(
          table,
          {.rows = view(extents), .cos = cos.data(), .sin = sin.data(), .pairing = case_.pairing});
      run.position_delta = 0;
    }
  }

  // Attention of logical rows [rows.begin, rows.end), with n_threads.
  std::vector<float> attend(const KernelTable& table, int n_threads, Range rows) {
    std::vector<tensor::Extent> keys;
    std::vector<tensor::Extent> values;
    for (const Run& run : case_.runs) {
      add_extents(keys_, run, keys);
      add_extents(values_, run, values);
    }
    const std::int64_t n = rows.end - rows.begin;
    std::vector<std::vector<float>> q;
    std::vector<QueryVariant> queries;
    q.reserve(case_.runs.size());
    for (const Run& run : case_.runs) {
      q.push_back(turned_queries(rows, run.position_delta));
      queries.push_back({.position_delta = run.position_delta, .q = q.back().data()});
    }
    std::vector<float> out(size_of(n * kHeads * kDim));
    const auto pool = std::move(ThreadPool::create(n_threads)).value();
    const AttentionScratchShape shape{
        .rows = {.head_dim = kDim, .value_dim = kDim, .max_extent_rows = kPage},
        .n_threads = n_threads};
    std::vector<float> scratch(size_of(attention_scratch_floats(shape)),
                               std::numeric_limits<float>::quiet_NaN());
    const AttentionArgs span{.queries = queries,
                             .keys = view(keys),
                             .values = view(values),
                             .n_rows = n,
                             .n_heads = kHeads,
                             .rows_before = rows.begin,
                             .scale = kScale,
                             .out = out.data()};
    attention({.table = &table, .pool = pool.get(), .scratch = scratch}, {&span, 1});
    return out;
  }

  // The same in binary64 from untouched keys and queries and the difference of their positions.
  std::vector<double> expected() const {
    std::vector<double> out;
    for (std::int64_t i = 0; i < n_rows_ * kHeads; ++i) {
      const std::int64_t row = i / kHeads;
      const std::int64_t kv_head = i % kHeads / (kHeads / kKvHeads);
      std::vector<double> sum(size_of(kDim), 0.0);
      double total = 0.0;
      for (std::int64_t j = 0; j <= row; ++j) {
        const Stored key = stored(j);
        const std::int64_t at = place(key.row, kv_head);
        const auto distance = static_cast<double>(row - key.position);
        const double p =
            std::exp(kScale * score(q_.data() + i * kDim, raw_keys_.data() + at, distance));
        total += p;
        for (std::int64_t d = 0; d < kDim; ++d) sum[size_of(d)] += p * values_[size_of(at + d)];
      }
      for (const double number : sum) out.push_back(number / total);
    }
    return out;
  }

  // Fills the rows that logical row `row` must not see with NaNs, and those of the holes.
  void spoil_after(std::int64_t row) {
    std::vector<bool> seen(keys_.size() / size_of(kDim * kKvHeads), false);
    for (std::int64_t i = 0; i <= row; ++i) seen[size_of(stored(i).row)] = true;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      for (std::int64_t head = 0; head < kKvHeads && !seen[i]; ++head) {
        const std::int64_t at = place(static_cast<std::int64_t>(i), head);
        std::fill_n(keys_.begin() + at, kDim, std::numeric_limits<float>::quiet_NaN());
        std::fill_n(values_.begin() + at, kDim, std::numeric_limits<float>::quiet_NaN());
      }
    }
  }

 private:
  static std::int64_t place(std::int64_t row, std::int64_t head) {
    return ((row / kPage * kKvHeads + head) * kPage + row % kPage) * kDim;
  }

  struct Stored {
    std::int64_t row = 0;
    std::int64_t position = 0;  // where it stands now
  };
  Stored stored(std::int64_t logical) const {
    for (const Run& run : case_.runs) {
      const std::int64_t row = run.begin + logical;
      if (row < run.end) return {row, row + run.position_delta};
      logical -= run.end - run.begin;
    }
    return {};
  }

  double score(const float* q, const float* k, double distance) const {
    double sum = 0.0;
    for (std::int64_t i = 0; i < kDim / 2; ++i) {
      const bool neox = case_.pairing == RopePairing::kNeox;
      const std::int64_t a = neox ? i : 2 * i;
      const std::int64_t b = neox ? i + kDim / 2 : 2 * i + 1;
      double angle = distance * std::pow(kTheta, -2.0 * static_cast<double>(i) / kDim);
      if (!case_.factors.empty()) angle /= static_cast<double>(case_.factors[size_of(i)]);
      const double qa = q[a] * std::cos(angle) - q[b] * std::sin(angle);
      const double qb = q[b] * std::cos(angle) + q[a] * std::sin(angle);
      sum += qa * k[a] + qb * k[b];
    }
    return sum;
  }

  void turn(float* heads, std::int64_t n_heads, Position position) const {
    std::vector<float> cos(size_of(kDim / 2));
    std::vector<float> sin(size_of(kDim / 2));
    rope_.angles(position, cos.data(), sin.data());
    table_of(Target::kRef)
        .rope({.x = heads,
               .n_heads = n_heads,
               .head_dim = kDim,
               .cos = cos.data(),
               .sin = sin.data(),
               .pairing = case_.pairing});
  }

  std::vector<float> turned_queries(Range rows, std::int64_t position_delta) const {
    std::vector<float> out(q_.begin() + rows.begin * kHeads * kDim,
                           q_.begin() + rows.end * kHeads * kDim);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      turn(out.data() + (row - rows.begin) * kHeads * kDim, kHeads,
           Position(row) - Tokens(position_delta));
    }
    return out;
  }

  static void add_extents(std::vector<float>& side, const Run& run,
                          std::vector<tensor::Extent>& to) {
    for (std::int64_t row = run.begin; row < run.end;) {
      const std::int64_t end = std::min(run.end, (row / kPage + 1) * kPage);
      to.push_back({.page = std::as_writable_bytes(std::span(side)).data() +
                            row / kPage * kPage * kKvHeads * kDim * 4,
                    .first_row = static_cast<std::int32_t>(row % kPage),
                    .n_rows = static_cast<std::int32_t>(end - row),
                    .position_delta = run.position_delta});
      row = end;
    }
  }

  static tensor::PagedRows view(std::span<const tensor::Extent> extents) {
    return {.extents = extents,
            .head_stride_bytes = kPage * kDim * 4,
            .row_bytes = kDim * 4,
            .n_heads = kKvHeads,
            .row_width = kDim,
            .dtype = Dtype::kF32};
  }

  ShiftedCase case_;
  RopeFrequencies rope_;
  std::int64_t n_stored_;
  std::int64_t n_rows_ = 0;
  std::vector<float> raw_keys_;  // [pages, kKvHeads, kPage, kDim]
  std::vector<float> keys_;      // the same, turned
  std::vector<float> values_;
  std::vector<float> q_;  // [n_rows, kHeads, kDim]
};

// What is left of 230 stored rows after some shifts.
std::vector<ShiftedCase> shifted_cases() {
  const std::vector<std::vector<Run>> shapes = {
      {{0, 230, 0}},                                                  // never shifted
      {{0, 10, 0}, {40, 230, -30}},                                   // a hole within a page
      {{0, 1, 0}, {128, 230, -127}},                                  // one over page borders
      {{100, 230, -100}},                                             // nothing kept
      {{0, 5, 0}, {7, 20, -2}, {50, 90, -32}, {91, 230, -33}},        // several
      {{0, 30, 0}, {60, 100, -30}, {131, 140, 0}, {140, 230, -61}}};  // a delta twice
  std::vector<ShiftedCase> out;
  for (const auto& runs : shapes) {
    for (const RopePairing pairing : {RopePairing::kNeox, RopePairing::kNorm}) {
      out.push_back({.runs = runs, .pairing = pairing});
      out.push_back({.runs = runs,
                     .pairing = pairing,
                     .factors = {1.0F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F, 8.0F}});
    }
  }
  return out;
}

class ShiftedAttention : public test::TargetTest {};

TEST_P(ShiftedAttention, IsASoftmaxOverDifferencesOfThePositionsWhereRowsStand) {
  for (const ShiftedCase& c : shifted_cases()) {
    Sequence sequence(c);
    const std::vector<float> got = sequence.attend(table(), 1, {0, sequence.n_rows()});
    const std::vector<double> wanted = sequence.expected();
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 2e-6) << i;
  }
}

TEST_P(ShiftedAttention, TurningTheStoredKeysInsteadGivesTheSameWithinRounding) {
  for (const ShiftedCase& c : shifted_cases()) {
    Sequence sequence(c);
    const Range all{0, sequence.n_rows()};
    const std::vector<float> queries_turned = sequence.attend(table(), 1, all);
    sequence.turn_keys(table());
    const std::vector<float> keys_turned = sequence.attend(table(), 1, all);
    for (std::size_t i = 0; i < keys_turned.size(); ++i) {
      ASSERT_NEAR(queries_turned[i], keys_turned[i], 1e-5) << i;
    }
  }
}

TEST_P(ShiftedAttention, GivesTheSameBitsInAnyChunkingAndThreadCount) {
  for (const ShiftedCase& c : shifted_cases()) {
    Sequence sequence(c);
    const std::int64_t n = sequence.n_rows();
    const std::vector<float> whole = sequence.attend(table(), 1, {0, n});
    EXPECT_TRUE(same_bits(whole, sequence.attend(table(), 3, {0, n})));
    for (const std::int64_t chunk : {1, 33, 64}) {
      std::vector<float> chunked;
      for (std::int64_t begin = 0; begin < n; begin += chunk) {
        const std::vector<float> part =
            sequence.attend(table(), 2, {begin, std::min(n, begin + chunk)});
        chunked.insert(chunked.end(), part.begin(), part.end());
      }
      EXPECT_TRUE(same_bits(whole, chunked)) << chunk;
    }
  }
}

TEST_P(ShiftedAttention, RowsAfterAQueryAndInHolesChangeNothing) {
  for (const ShiftedCase& c : shifted_cases()) {
    for (const std::int64_t row : {0, 4, 5, 9, 10, 17, 40, 100, 129}) {
      Sequence sequence(c);
      if (row >= sequence.n_rows()) continue;
      const std::vector<float> before = sequence.attend(table(), 1, {row, row + 1});
      sequence.spoil_after(row);
      EXPECT_TRUE(same_bits(before, sequence.attend(table(), 1, {row, row + 1}))) << row;
      EXPECT_FALSE(std::isnan(before[0]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ShiftedAttention,
                         ::testing::ValuesIn(all_targets().begin(), all_targets().end()),
                         [](const auto& param) { return std::string(name_of(param.param)); });

}  // namespace
}  // namespace kvant::kernels
