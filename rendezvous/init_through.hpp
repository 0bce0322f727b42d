// init() with settings that are read after the process's place in its job has been found; and init() for ranks that
// have numbers and a way of their own to exchange small texts, such as the key-value store of another library. Any
// thread; blocks as init() does.
#pragma once
#include <anello/init.hpp>
#include <functional>
#include <memory>

#include "rendezvous/join/key_value_space.hpp"

namespace anello::rendezvous {

// If `read` throws, the other ranks are informed.
World init_with(const std::function<Settings()>& read);

// Joins the world of the processes that share the space; its rank and size are the world's. The settings' rank, size
// and rendezvous do not count. The space is used until the call returns, by the calling thread, and its fence() is
// called once. Throws as init() does, and what the space throws.
World init_through(std::unique_ptr<KeyValueSpace> space, Settings settings);

}  // namespace anello::rendezvous
