// On a real GPU: the casts between all types of floats, and arrays of more than 2^31 elements.
#include <gtest/gtest.h>

#include <anello/tensor.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/gpu/real_gpu.hpp"

namespace anello {
namespace {

// Zeros, ties between neighbours of 16 bits, the smallest and the largest numbers, infinity, and NaN; enough elements
// for loads of 16 bytes and a rest.
std::vector<double> awkward() {
  std::vector<double> all = {0,        -0.0,     1,          1 + 0x1p-11, 1 + 0x3p-11, 1 + 0x1p-8, 1 + 0x3p-8,
                             -1.5,     65504,    65519.99,   65520,       0x1p-24,     0x1p-25,    0x3p-25,
                             0x1p-133, 0x1p-134, 0x3.ffp126, 1e-40,       INFINITY,    -INFINITY,  NAN};
  while (all.size() < 1003) all.push_back(std::ldexp(double(all.size() * 7919 % 4093), int(all.size() % 50) - 30));
  return all;
}

// All values are floats, so that the processor also rounds only once.
template <class From, class To>
void expect_same_casts() {
  std::vector<From> from;
  for (const double value : awkward()) from.push_back(From(float(value)));
  std::vector<To> found(from.size(), To(1.0F));
  const gpu::DeviceGuard guard(device());
  const gpu::Stream stream = gpu::make_stream(device());
  const Mirror in(from.data(), from.size() * sizeof(From), stream.get());
  const Mirror out(found.data(), found.size() * sizeof(To), stream.get());
  const AnelloPart part{in.get(), out.get(), from.size()};
  EXPECT_EQ(kernels()->cast(&part, 1, int(dtype_of<From>()), int(dtype_of<To>()), 1, stream.get()), 0);
  out.back_to(found.data(), stream.get());
  const gpu::Event done = gpu::make_event(device());
  gpu::record(device(), done, stream.get());
  gpu::wait(device(), done, gpu::kLastWait, "casts");
  for (std::size_t i = 0; i < from.size(); i++) {
    const To expected = To(float(from[i]));
    if (std::isnan(float(expected)))
      EXPECT_TRUE(std::isnan(float(found[i]))) << i;
    else
      EXPECT_EQ(std::memcmp(&found[i], &expected, sizeof(To)), 0)
          << float(from[i]) << " became " << float(found[i]) << ", from " << int(dtype_of<From>()) << " to "
          << int(dtype_of<To>());
  }
}

template <class From>
void expect_same_casts_from() {
  expect_same_casts<From, f16>();
  expect_same_casts<From, bf16>();
  expect_same_casts<From, float>();
  expect_same_casts<From, double>();
}

TEST(Casts, AreThoseOfTheProcessor) {
  expect_same_casts_from<f16>();
  expect_same_casts_from<bf16>();
  expect_same_casts_from<float>();
  expect_same_casts_from<double>();
}

TEST(Casts, ReachTheEndOfMoreThan2To31Elements) {
  constexpr std::size_t kCount = (std::size_t(1) << 31) + 5, kTail = 16;
  const gpu::DeviceGuard guard(device());
  const gpu::Stream stream = gpu::make_stream(device());
  const gpu::DeviceMemory in = gpu::make_memory(device(), kCount * 2), out = gpu::make_memory(device(), kCount * 2);
  gpu::zero(device(), in.get(), kCount * 2, stream.get());
  std::vector<bf16> tail(kTail, bf16(3.0F));
  const auto end_of = [&](const gpu::DeviceMemory& memory) {
    return static_cast<bf16*>(memory.get()) + kCount - kTail;
  };
  gpu::copy(device(), end_of(in), tail.data(), kTail * 2, stream.get());
  const AnelloPart part{in.get(), out.get(), kCount};
  EXPECT_EQ(kernels()->cast(&part, 1, int(DType::bf16), int(DType::bf16), 2, stream.get()), 0);
  gpu::copy(device(), tail.data(), end_of(out), kTail * 2, stream.get());
  const gpu::Event done = gpu::make_event(device());
  gpu::record(device(), done, stream.get());
  gpu::wait(device(), done, gpu::kLastWait, "a large cast");
  for (const bf16 value : tail) EXPECT_EQ(float(value), 6);
}

}  // namespace
}  // namespace anello
