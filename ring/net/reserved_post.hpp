// Reserves memory for one handler of an event loop, so that the handler can be posted even when no memory is left. Any
// thread.
#pragma once
#include <array>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace anello::net {

class ReservedPost {
 public:
  // Posts the handler. Does not throw. Does nothing if the handler that was posted before has not begun.
  template <class Handler>
  void post(asio::io_context& context, Handler handler) noexcept {
    if (place_->taken.exchange(true)) return;
    asio::post(context, Posted<Handler>{std::move(handler), place_});
  }

 private:
  struct Place {
    std::atomic<bool> taken = false;
    alignas(std::max_align_t) std::array<std::byte, 256> bytes;
  };

  // Shares ownership of the reserved memory, because a handler that never begins is destroyed with its event loop,
  // possibly after the owner of the reserve.
  template <class T>
  struct Allocator {
    using value_type = T;

    explicit Allocator(std::shared_ptr<Place> its_place) : place(std::move(its_place)) {}
    template <class Other>
    explicit(false) Allocator(const Allocator<Other>& other) : place(other.place) {}

    T* allocate(std::size_t) {
      static_assert(sizeof(T) <= sizeof(Place::bytes) && alignof(T) <= alignof(std::max_align_t));
      return reinterpret_cast<T*>(place->bytes.data());
    }
    void deallocate(T*, std::size_t) { place->taken = false; }
    friend bool operator==(const Allocator&, const Allocator&) = default;

    std::shared_ptr<Place> place;
  };

  template <class Handler>
  struct Posted {
    using allocator_type = Allocator<void>;

    allocator_type get_allocator() const noexcept { return allocator_type(place); }
    void operator()() { handler(); }

    Handler handler;
    std::shared_ptr<Place> place;
  };

  const std::shared_ptr<Place> place_ = std::make_shared<Place>();
};

}  // namespace anello::net
