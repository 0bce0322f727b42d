// Converts floats from one type to another, and multiplies them by a factor. Used to pack and unpack tensors that are
// sent in 16 bits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "gpu/kernels/launch.cuh"

namespace {

enum ElementType {  // anello::DType
#define ANELLO_ELEMENT_TYPE(name, value, ...) name = value,
#include <anello/element_types.def>
};

// The type of the intermediate result: f64 if one side is f64, so that no bits are lost.
template <class From, class To>
using Between = std::conditional_t<std::is_same_v<From, double> || std::is_same_v<To, double>, double, float>;

template <class Wide, class From>
__device__ Wide widened(From value) {
  if constexpr (std::is_same_v<From, __half>)
    return __half2float(value);
  else if constexpr (std::is_same_v<From, __nv_bfloat16>)
    return __bfloat162float(value);
  else
    return static_cast<Wide>(value);
}
template <class To, class Wide>
__device__ To narrowed(Wide value) {
  if constexpr (std::is_same_v<To, __half> && std::is_same_v<Wide, double>)
    return __double2half(value);
  else if constexpr (std::is_same_v<To, __half>)
    return __float2half_rn(value);
  else if constexpr (std::is_same_v<To, __nv_bfloat16> && std::is_same_v<Wide, double>)
    return __double2bfloat16(value);
  else if constexpr (std::is_same_v<To, __nv_bfloat16>)
    return __float2bfloat16_rn(value);
  else
    return static_cast<To>(value);
}

// The number of elements that a thread loads or stores at once: 16 bytes of the wider type, so that neighbouring
// threads access neighbouring bytes on both sides. (If each thread makes two loads or stores on the wider side, an H200
// reaches 64 to 76 % of a copy's speed.)
template <class From, class To>
constexpr int kPack = 16 / static_cast<int>(std::max(sizeof(From), sizeof(To)));

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

constexpr int kPartsALaunch = 64;
struct Parts {
  AnelloPart all[kPartsALaunch];
};

// The grid has one row of blocks for each part.
template <class From, class To>
__global__ void cast_parts(Parts parts, Between<From, To> factor) {
  using Wide = Between<From, To>;
  const AnelloPart part = parts.all[blockIdx.y];
  const auto* const from = static_cast<const From*>(part.from);
  auto* const to = static_cast<To*>(part.to);
  const auto one = [&](From value) { return narrowed<To>(widened<Wide>(value) * factor); };
  const bool aligned = ((reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to)) & 15) == 0;
  constexpr int kOnePack = kPack<From, To>, kAtOnce = 4;
  using In = Pack<From, kOnePack>;
  using Out = Pack<To, kOnePack>;
  const auto store = [&](std::size_t i, const In& in) {
    Out out;
    for (int k = 0; k < kOnePack; k++) out.values[k] = one(in.values[k]);
    reinterpret_cast<Out*>(to)[i] = out;
  };
  const std::size_t packs = aligned ? part.count / kOnePack : 0;
  std::size_t i = first();
  for (; i + (kAtOnce - 1) * stride() < packs; i += kAtOnce * stride()) {
    In some[kAtOnce];
    for (int k = 0; k < kAtOnce; k++) some[k] = reinterpret_cast<const In*>(from)[i + k * stride()];
    for (int k = 0; k < kAtOnce; k++) store(i + k * stride(), some[k]);
  }
  for (; i < packs; i += stride()) store(i, reinterpret_cast<const In*>(from)[i]);
  for (i = kOnePack * packs + first(); i < part.count; i += stride()) to[i] = one(from[i]);
}

template <class From, class To>
int cast_all(const AnelloPart* parts, std::size_t part_count, double factor, cudaStream_t stream) {
  for (std::size_t begin = 0; begin < part_count; begin += kPartsALaunch) {
    const std::size_t count = std::min<std::size_t>(part_count - begin, kPartsALaunch);
    Parts some{};
    std::copy_n(parts + begin, count, some.all);
    std::size_t longest = 1;
    for (std::size_t i = 0; i < count; i++) longest = std::max(longest, some.all[i].count);
    const std::size_t packs = (longest + kPack<From, To> - 1) / kPack<From, To>;
    const dim3 blocks(static_cast<unsigned>(blocks_for(packs)), static_cast<unsigned>(count));
    cast_parts<From, To><<<blocks, kThreads, 0, stream>>>(some, static_cast<Between<From, To>>(factor));
    if (const int status = launched()) return status;
  }
  return 0;
}

template <class From>
int cast_from(const AnelloPart* parts, std::size_t part_count, int to_type, double factor, cudaStream_t stream) {
  switch (to_type) {
    case f16:
      return cast_all<From, __half>(parts, part_count, factor, stream);
    case bf16:
      return cast_all<From, __nv_bfloat16>(parts, part_count, factor, stream);
    case f32:
      return cast_all<From, float>(parts, part_count, factor, stream);
    case f64:
      return cast_all<From, double>(parts, part_count, factor, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace

int anello_cast(const AnelloPart* parts, std::size_t part_count, int from_type, int to_type, double factor,
                cudaStream_t stream) {
  switch (from_type) {
    case f16:
      return cast_from<__half>(parts, part_count, to_type, factor, stream);
    case bf16:
      return cast_from<__nv_bfloat16>(parts, part_count, to_type, factor, stream);
    case f32:
      return cast_from<float>(parts, part_count, to_type, factor, stream);
    case f64:
      return cast_from<double>(parts, part_count, to_type, factor, stream);
    default:
      return cudaErrorInvalidValue;
  }
}
