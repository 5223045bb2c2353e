// Does one operation on a real sequence and on the brute-force model, and compares their answers.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/reference_state.h"

namespace kvant::test {

// Two sequences of one pool and one place for a snapshot.
class StateDriver {
 public:
  enum class Exhaustion { kImpossible, kAllowed };

  // `pool` must hold at least two sequences of `context` positions.
  StateDriver(const std::shared_ptr<state::PagePool>& pool, Tokens context, Exhaustion exhaustion)
      : context_(context.value()), exhaustion_(exhaustion) {
    for (int i = 0; i < 2; ++i) {
      sequences_.push_back(state::Sequence::create(pool, context).value());
    }
    remembered_.resize(2);
  }

  // Operations act on the sequence that is in front. Each returns what was wrong, or nothing.
  void swap() { front_ = 1 - front_; }

  std::string prepare(std::int64_t n) {
    Remembered& expected = remembered_[front_];
    const Status status = sequence().prepare(Tokens(n));
    const auto end = static_cast<std::int64_t>(expected.stamps.size()) + n;
    std::optional<ErrorCode> refusal;
    if (expected.poisoned) {
      refusal = ErrorCode::kPoisoned;
    } else if (expected.open > 0) {
      refusal = ErrorCode::kStepOpen;
    } else if (n < 1) {
      refusal = ErrorCode::kEmptyPrefill;
    } else if (end - n == context_) {
      refusal = ErrorCode::kContextExhausted;
    } else if (end > context_) {
      refusal = ErrorCode::kContextBound;
    }
    if (!status && !refusal && exhaustion_ == Exhaustion::kAllowed &&
        status.error().code == ErrorCode::kPoolExhausted) {
      ++n_exhausted_;
      return {};
    }
    if (const auto wrong = check(status, refusal); !wrong.empty() || refusal) return wrong;
    expected.open = n;
    open_versions_[front_] = versions_;
    expected.open_stamps.clear();
    for (std::int64_t i = 0; i < n; ++i) expected.open_stamps.push_back(++last_stamp_);
    return write_step(sequence(), expected, versions_);
  }

  // Whether steps write every version of recurrent components that a rollback could use.
  void write(Versions versions) { versions_ = versions; }

  std::string commit() {
    Remembered& expected = remembered_[front_];
    const std::int64_t start = expected.position();
    const std::int64_t n = expected.open > 0 ? expected.open : 1;
    const Status status = sequence().commit(Position(start), Tokens(n));
    std::optional<ErrorCode> refusal;
    if (expected.poisoned) {
      refusal = ErrorCode::kPoisoned;
    } else if (expected.open == 0) {
      refusal = ErrorCode::kStepNotPrepared;
    }
    if (const auto wrong = check(status, refusal); !wrong.empty() || refusal) return wrong;
    const state::Geometry& geometry = sequence().pool()->geometry();
    const bool inner = open_versions_[front_] == Versions::kAll || !geometry.has_recurrent;
    for (const std::int64_t stamp : expected.open_stamps) {
      // A key is stored for the position behind the one before it, wherever shifts have moved both.
      const std::int64_t delta = sequence().position_runs().back().delta;
      const std::int64_t stored = expected.stored.empty() ? -delta : expected.stored.back() + 1;
      expected.stamps.push_back(stamp);
      expected.stored.push_back(stored);
      expected.folded.push_back(stamp);
      expected.reachable.push_back(inner ? 1 : 0);
    }
    expected.reachable.back() = 1;
    expected.depth = std::min(expected.depth + n, geometry.max_rollback.value());
    expected.open = 0;
    return {};
  }

  std::string rollback(std::int64_t n) {
    Remembered& expected = remembered_[front_];
    std::optional<ErrorCode> refusal = not_readable(expected);
    const bool legal =
        n >= 0 && n <= expected.depth &&
        expected.reachable[expected.folded.size() - static_cast<std::size_t>(n)] != 0;
    if (!refusal && !legal) refusal = ErrorCode::kRollbackBound;
    const Status status = sequence().rollback(Tokens(n));
    if (const auto wrong = check(status, refusal); !wrong.empty() || refusal) return wrong;
    const auto left = expected.stamps.size() - static_cast<std::size_t>(n);
    expected.stamps.resize(left);
    expected.stored.resize(left);
    expected.folded.resize(expected.folded.size() - static_cast<std::size_t>(n));
    expected.reachable.resize(expected.folded.size() + 1);
    expected.depth -= n;
    return {};
  }

  // Requires: a layout and a plan that can shift.
  std::string shift(std::int64_t keep, std::int64_t n) {
    Remembered& expected = remembered_[front_];
    std::optional<ErrorCode> refusal = not_readable(expected);
    if (!refusal && (keep < 0 || n < 1)) refusal = ErrorCode::kInvalidArgument;
    if (!refusal && keep + n > expected.position()) refusal = ErrorCode::kShiftRange;
    const Status status = sequence().shift({.keep = Position(keep), .n = Tokens(n)});
    const bool may_lack = exhaustion_ == Exhaustion::kAllowed || released_allowed_;
    if (!status && !refusal && may_lack &&
        (status.error().code == ErrorCode::kPoolExhausted ||
         status.error().code == ErrorCode::kShiftPieces ||
         status.error().code == ErrorCode::kShiftRowsReleased)) {
      ++n_exhausted_;
      return {};
    }
    if (const auto wrong = check(status, refusal); !wrong.empty() || refusal) return wrong;
    const auto erase = [&](auto& list) {
      list.erase(list.begin() + keep, list.begin() + keep + n);
    };
    erase(expected.stamps);
    erase(expected.stored);
    expected.reachable.assign(expected.folded.size() + 1, 0);
    expected.reachable.back() = 1;
    expected.depth = 0;
    expected.derived = true;
    return {};
  }
  void allow_released_rows() { released_allowed_ = true; }

  // Commits that name a wrong position or length: refused, and the step stays open.
  std::string commit_wrongly() {
    const Remembered& expected = remembered_[front_];
    const std::int64_t start = expected.position();
    const auto refused = [&](ErrorCode code) {
      return expected.poisoned ? ErrorCode::kPoisoned : code;
    };
    for (const std::int64_t wrong : {start - 1, start + 1}) {
      const auto answer =
          check(sequence().commit(Position(wrong), Tokens(1)), refused(ErrorCode::kStepOutOfOrder));
      if (!answer.empty()) return answer;
    }
    const auto answer = check(sequence().commit(Position(start), Tokens(expected.open + 1)),
                              refused(ErrorCode::kStepNotPrepared));
    if (!answer.empty()) return answer;
    return check(sequence().commit(Position(start), Tokens(0)), refused(ErrorCode::kEmptyPrefill));
  }

  std::string step(std::int64_t n) {
    const std::int64_t exhausted = n_exhausted_;
    const auto wrong = prepare(n);
    return !wrong.empty() || n_exhausted_ != exhausted ? wrong : commit();
  }

  std::string poison() {
    Remembered& expected = remembered_[front_];
    if (expected.open > 0) scribble(sequence(), static_cast<std::int64_t>(expected.stamps.size()));
    sequence().poison();
    expected.poisoned = expected.poisoned || expected.open > 0;
    expected.open = 0;
    return {};
  }

  std::string reset() { return reset(state::KeptPages::kNone); }
  std::string reset(state::KeptPages kept) {
    remembered_[front_] = {};
    return check(sequence().reset(kept), std::nullopt);
  }

  std::string snapshot() {
    const Remembered& expected = remembered_[front_];
    const auto snapshot = sequence().snapshot();
    const auto refusal = not_readable(expected);
    if (snapshot) snapshot_.emplace(*snapshot, expected);
    return check(snapshot ? ok() : Status(snapshot.error()), refusal);
  }

  std::string restore() {
    if (!snapshot_) return {};
    remembered_[front_] = snapshot_->second;
    return check(sequence().restore(snapshot_->first), std::nullopt);
  }

  // The sequence behind becomes a fork of the one in front.
  std::string fork() {
    const Remembered& expected = remembered_[front_];
    auto other = sequence().fork();
    const auto refusal = not_readable(expected);
    if (other) {
      sequences_[1 - front_] = std::move(*other);
      remembered_[1 - front_] = expected;
      return check(ok(), refusal);
    }
    return check(other.error(), refusal);
  }

  std::string compare() const {
    for (std::size_t i = 0; i < 2; ++i) {
      const auto wrong = compare_all(sequences_[i], remembered_[i]);
      if (!wrong.empty()) return "sequence " + std::to_string(i) + ": " + wrong;
    }
    if (snapshot_ && snapshot_->first.position().value() !=
                         static_cast<std::int64_t>(snapshot_->second.stamps.size())) {
      return "snapshot's position";
    }
    return {};
  }

  state::Sequence& sequence() { return sequences_[front_]; }
  const Remembered& remembered() const { return remembered_[front_]; }
  std::int64_t n_exhausted() const { return n_exhausted_; }

 private:
  static std::optional<ErrorCode> not_readable(const Remembered& expected) {
    if (expected.poisoned) return ErrorCode::kPoisoned;
    if (expected.open > 0) return ErrorCode::kStepOpen;
    return std::nullopt;
  }

  static std::string check(const Status& status, std::optional<ErrorCode> refusal) {
    if (status.has_value() != !refusal) {
      return status ? "a refusal is missing: " + std::string(name_of(*refusal))
                    : "refused: " + describe(status.error());
    }
    if (refusal && status.error().code != *refusal) {
      return "refused as " + std::string(name_of(status.error().code)) + " instead of " +
             std::string(name_of(*refusal));
    }
    return {};
  }

  std::int64_t context_;
  Exhaustion exhaustion_;
  std::vector<state::Sequence> sequences_;
  std::vector<Remembered> remembered_;
  std::optional<std::pair<state::Snapshot, Remembered>> snapshot_;
  std::size_t front_ = 0;
  std::int64_t last_stamp_ = 0;
  std::int64_t n_exhausted_ = 0;
  Versions versions_ = Versions::kLast;
  std::array<Versions, 2> open_versions_{};  // with which the open steps were written
  bool released_allowed_ = false;
};

}  // namespace kvant::test
