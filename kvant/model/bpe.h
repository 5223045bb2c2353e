// Byte-pair merging of one word in O(n log n).
//
// The word's symbols form a doubly linked list; a heap holds the adjacent pairs that have a merge,
// ordered by (rank, place). The front pair is merged, which makes at most two new pairs; a pair
// whose symbols have changed meanwhile is recognised when it comes to the front and dropped. So at
// most 3n pairs enter the heap, whatever the word: a megabyte without a blank costs no more per
// byte than prose.
//
// The result is the one of the definition: again and again, merge the pair of lowest rank, the
// leftmost among equals.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kvant/base/units.h"

namespace kvant::model {

struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId result = 0;
  std::uint32_t rank = 0;
};

// Merges by their pair. An open-addressed table: the keys are scrambled, so that no file can choose
// ids that collide.
class MergeTable {
 public:
  // False when the pair is there already; the table is unchanged then.
  bool insert(const Merge& merge);
  // Null when the pair does not merge.
  const Merge* find(TokenId left, TokenId right) const;
  std::size_t size() const { return n_merges_; }

 private:
  std::size_t slot_of(TokenId left, TokenId right) const;
  void grow();

  std::vector<Merge> slots_;  // a power of two, at most half full; result -1 marks a free one
  std::size_t n_merges_ = 0;
};

// Working memory of merge_word, reused from word to word.
class MergeScratch {
 private:
  friend std::size_t merge_word(const MergeTable&, MergeScratch&, std::vector<TokenId>&);

  struct Symbol {
    TokenId id = 0;
    std::uint32_t previous = 0;
    std::uint32_t next = 0;
  };
  struct Candidate {
    const Merge* merge = nullptr;
    std::uint32_t at = 0;  // place of the left symbol
  };
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

// Merges the symbols of one word in place. Returns how many pairs entered the heap (at most 3n),
// which is what the cost is made of.
// Requires: fewer than 2^31 symbols.
std::size_t merge_word(const MergeTable& merges, MergeScratch& scratch,
                       std::vector<TokenId>& symbols);

}  // namespace kvant::model
