// The common part of all files of the C API: the handles, and the conversion of exceptions to status codes. Every
// function of the C API runs its body in guarded(), so that no exception reaches C. Each thread has its own last error.
#pragma once
#include <anello/anello.h>

#include <algorithm>
#include <anello/anello.hpp>
#include <array>
#include <chrono>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rendezvous/protocol/describe.hpp"
#include "ring/base/text.hpp"

struct anello_group {
  anello::Group group;
};
struct anello_work {
  anello::Work work;
};
struct anello_world {
  explicit anello_world(anello::World&& made) : own(std::move(made)), world(*own) {}
  explicit anello_world(anello::World& of_job) : world(of_job) {}
  std::optional<anello::World> own;  // empty for a world that belongs to an elastic job
  anello::World& world;
  anello_group all_ranks{world};
  std::string layout = world.layout();
};
struct anello_gradients {
  anello::Gradients gradients;
};
struct anello_phase {
  anello::Phase phase;
};

namespace anello::c_api {

static_assert(int(anello::ErrorCode::device) == ANELLO_DEVICE && int(anello::DType::f8_e5m2) == ANELLO_F8_E5M2 &&
              int(anello::Op::bit_xor) == ANELLO_BIT_XOR);

// The message is in a fixed buffer, because a caller may still hold the pointer to it when the thread's next call
// fails.
struct LastError {
  std::array<char, 4096> message{};
  int rank = -1;
};
inline thread_local LastError last_error;

inline anello_status failed(anello_status status, std::string_view message, int rank = -1) {
  const std::size_t length = std::min(message.size(), last_error.message.size() - 1);
  std::copy_n(message.begin(), length, last_error.message.begin());
  last_error.message[length] = '\0';
  last_error.rank = rank;
  return status;
}

template <class Body>
[[gnu::always_inline]] inline anello_status guarded(Body body) {
  try {
    body();
    return ANELLO_OK;
  } catch (const Error& e) {
    return failed(anello_status(e.code()), e.what(), e.rank());
  } catch (const std::bad_alloc&) {
    return failed(ANELLO_OUT_OF_MEMORY, rendezvous::kOutOfMemory);
  } catch (const std::exception& e) {
    return failed(ANELLO_OUT_OF_MEMORY, e.what());
  }
}

[[noreturn]] inline void refuse(const std::string& why) {
  throw Error(anello::ErrorCode::invalid_argument, why);
}

template <class T>
T& required(T* pointer, const char* what) {
  if (!pointer) refuse(text("the ", what, " is NULL"));
  return *pointer;
}

// Runs a call that returns a value but no status. Returns get(handle), or -1 or NULL if the handle is NULL.
template <class Handle, class Get>
auto of(Handle* handle, const char* what, Get get) {
  using Result = decltype(get(*handle));
  if (handle) return get(*handle);
  failed(ANELLO_INVALID_ARGUMENT, text("the ", what, " is NULL"));
  if constexpr (std::is_pointer_v<Result>)
    return Result(nullptr);
  else
    return Result(-1);
}

// Limits how long a call may wait, because a larger number could cause an overflow.
inline std::chrono::milliseconds limit_of(std::uint64_t limit_ms) {
  constexpr std::uint64_t kMax = 1000ULL * 3600 * 24 * 365;
  return std::chrono::milliseconds(std::min(limit_ms, kMax));
}

// Returns a copy of the caller's struct. The caller may have an older (shorter) or newer (longer) version than ours.
// Members that it lacks keep their defaults; members that our version lacks are ignored.
template <class T>
[[gnu::always_inline]] inline T known(const T* given, T defaults) {
  if (!given) return defaults;
  if (given->struct_size == 0 || given->struct_size > sizeof(T) * 16)
    refuse(text("struct_size is ", given->struct_size, "; initialise the struct with its ..._INIT macro"));
  std::copy_n(reinterpret_cast<const char*>(given), std::min(given->struct_size, sizeof(T)),
              reinterpret_cast<char*>(&defaults));
  return defaults;
}

// Copies to the caller's struct those members of our results for which it has room.
template <class T>
void give_back(const T& ours, T& theirs) {
  std::copy_n(reinterpret_cast<const char*>(&ours), std::min(theirs.struct_size, sizeof(T)),
              reinterpret_cast<char*>(&theirs));
}

inline std::string_view view(const char* string) {
  return string ? std::string_view(string) : std::string_view();
}

inline anello::Settings settings_of(const anello_config* config) {
  const anello_config given = known(config, anello_config ANELLO_CONFIG_INIT);
  if (given.settings_size > 0 && !given.settings) refuse("the list of settings is NULL");
  anello::Settings settings = anello::Settings::from_environment();
  for (std::size_t k = 0; k < given.settings_size; k++) settings.set(view(given.settings[k]));
  return settings;
}
// Returns the function for anello::rendezvous::Interruption.
inline std::function<bool()> asked_by(const anello_config* config) {
  const int* const flag = known(config, anello_config ANELLO_CONFIG_INIT).interrupted;
  return [flag] { return flag && __atomic_load_n(flag, __ATOMIC_RELAXED) != 0; };
}

// A new-expression takes its memory before it calls init(). Without this function, a rank without memory would fail
// before init() has begun, and the other ranks would wait for it.
inline anello_world* new_world(anello::World made) {
  return new anello_world(std::move(made));
}

// Replaces numbers that do not fit into one byte by 255, a value that no enum has. The enums of the C++
// API have one byte, so a conversion would cut such numbers off.
template <class Enum>
Enum one_of(int value) {
  constexpr int kNone = 255;
  return Enum(value < 0 || value > kNone ? kNone : value);
}

inline std::function<void(const Error*)> call_of(anello_callback callback, void* context) {
  if (!callback) refuse("the callback is NULL");
  return [callback, context](const Error* error) {
    callback(context, error ? anello_status(error->code()) : ANELLO_OK, error ? error->what() : nullptr);
  };
}

inline anello::ConstTensor input_of(anello_input input) {
  return {input.data, input.count, one_of<anello::DType>(input.dtype)};
}
inline anello::Tensor tensor_of(anello_tensor tensor) {
  return {tensor.data, tensor.count, one_of<anello::DType>(tensor.dtype)};
}

inline std::vector<anello::Tensor> list_of(const anello_tensor* tensors, std::size_t count) {
  if (count > 0 && !tensors) refuse("the list of tensors is NULL");
  std::vector<anello::Tensor> list;
  for (std::size_t k = 0; k < count; k++) list.push_back(tensor_of(tensors[k]));
  return list;
}

}  // namespace anello::c_api
