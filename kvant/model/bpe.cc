#include "kvant/model/bpe.h"

#include <algorithm>
#include <limits>

namespace kvant::model {
namespace {

constexpr TokenId kFree = -1;
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// The mixing steps of SplitMix64.
std::uint64_t scramble(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

}  // namespace

std::size_t MergeTable::slot_of(TokenId left, TokenId right) const {
  const std::uint64_t key =
      (static_cast<std::uint64_t>(left) << 32) | static_cast<std::uint32_t>(right);
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = static_cast<std::size_t>(scramble(key)) & mask;
  while (slots_[slot].result != kFree &&
         (slots_[slot].left != left || slots_[slot].right != right)) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

void MergeTable::grow() {
  constexpr std::size_t kFirstSlots = 64;
  std::vector<Merge> old(std::max(kFirstSlots, slots_.size() * 2), Merge{.result = kFree});
  old.swap(slots_);
  for (const Merge& merge : old) {
    if (merge.result != kFree) slots_[slot_of(merge.left, merge.right)] = merge;
  }
}

bool MergeTable::insert(const Merge& merge) {
  if ((n_merges_ + 1) * 2 > slots_.size()) grow();
  Merge& slot = slots_[slot_of(merge.left, merge.right)];
  if (slot.result != kFree) return false;
  slot = merge;
  ++n_merges_;
  return true;
}

const Merge* MergeTable::find(TokenId left, TokenId right) const {
  if (slots_.empty()) return nullptr;
  const Merge& slot = slots_[slot_of(left, right)];
  return slot.result == kFree ? nullptr : &slot;
}

std::size_t merge_word(const MergeTable& merges, MergeScratch& scratch,
                       std::vector<TokenId>& symbols) {
  using Candidate = MergeScratch::Candidate;
  auto& list = scratch.symbols_;
  auto& heap = scratch.heap_;
  list.clear();
  heap.clear();
  const auto n = static_cast<std::uint32_t>(symbols.size());
  for (std::uint32_t i = 0; i < n; ++i) {
    list.push_back(
        {.id = symbols[i], .previous = i == 0 ? kNone : i - 1, .next = i + 1 == n ? kNone : i + 1});
  }
  std::size_t n_candidates = 0;
  // The heap's front is the smallest (rank, place).
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.merge->rank != b.merge->rank ? a.merge->rank > b.merge->rank : a.at > b.at;
  };
  const auto offer = [&](std::uint32_t at) {
    if (at == kNone || list[at].next == kNone) return;
    const Merge* merge = merges.find(list[at].id, list[list[at].next].id);
    if (merge == nullptr) return;
    heap.push_back({.merge = merge, .at = at});
    std::push_heap(heap.begin(), heap.end(), later);
    ++n_candidates;
  };
  for (std::uint32_t i = 0; i < n; ++i) offer(i);

  while (!heap.empty()) {
    const Candidate best = heap.front();
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    auto& left = list[best.at];
    // Outdated: one of the two has been merged since. (A swallowed symbol has id kFree.)
    if (left.id != best.merge->left || left.next == kNone) continue;
    auto& right = list[left.next];
    if (right.id != best.merge->right) continue;
    left.id = best.merge->result;
    right.id = kFree;
    left.next = right.next;
    if (left.next != kNone) list[left.next].previous = best.at;
    offer(left.previous);
    offer(best.at);
  }

  symbols.clear();
  for (std::uint32_t i = n == 0 ? kNone : 0; i != kNone; i = list[i].next) {
    symbols.push_back(list[i].id);
  }
  return n_candidates;
}

}  // namespace kvant::model
