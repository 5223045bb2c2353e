// SplitMix64 and xoshiro256**: the same numbers on every machine and library.
// Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators" (2021).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace kvant {

class SplitMix64 {
 public:
  constexpr explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  constexpr std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

class Xoshiro256 {
 public:
  constexpr explicit Xoshiro256(std::uint64_t seed) {
    SplitMix64 seeder(seed);
    for (auto& word : state_) word = seeder.next();
  }

  constexpr std::uint64_t next() {
    const std::uint64_t out = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return out;
  }

  // Uniform in [0, 1): the top 53 bits.
  constexpr double next_double() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  // Uniform in [-1, 1): the top 24 bits, exact in float.
  constexpr float next_signed_float() {
    return static_cast<float>(static_cast<std::int32_t>(next() >> 40) - (1 << 23)) * 0x1p-23f;
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace kvant
