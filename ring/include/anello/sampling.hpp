// Random numbers that are the same on every machine and with every standard library, and the order in which a training
// takes its samples. The standard defines the outputs of std::mt19937_64, but not those of its distributions and of
// std::shuffle. One thread.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>

namespace anello::sampling {

// The purpose of the numbers. Streams with one seed are independent: drawing more numbers from one stream does not
// change another stream.
enum class Stream : std::uint64_t { weights = 1, permutation, draws };

class Random {
 public:
  // `index` and `part` distinguish parts of a stream, such as the epoch and the rank.
  Random(std::uint64_t seed, Stream stream, std::uint64_t index = 0, std::uint64_t part = 0)
      : engine_(mix(mix(mix(mix(seed) + std::uint64_t(stream)) + index) + part)) {}

  // Returns a number in [0, 1); all multiples of 2^-53 are equally likely.
  double uniform() { return double(engine_() >> 11) * 0x1p-53; }

  // Returns a number in [0, bound). All numbers are exactly equally likely, because a value that would favour small
  // numbers is drawn again.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t uneven = (0 - bound) % bound;  // 2^64 mod bound
    std::uint64_t value = engine_();
    while (value < uneven) value = engine_();
    return value % bound;
  }

  template <class T>
  void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; i--) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  // The finalizer of splitmix64 (Steele, Lea, Flood 2014), which turns similar seeds into very different results.
  static std::uint64_t mix(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }
  std::mt19937_64 engine_;
};

// Writes the numbers of all samples in the order of an epoch.
inline void order_of_epoch(std::uint64_t seed, std::uint64_t epoch, std::span<std::uint32_t> order) {
  std::iota(order.begin(), order.end(), 0);
  Random(seed, Stream::permutation, epoch).shuffle(order);
}

}  // namespace anello::sampling
