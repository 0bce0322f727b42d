// init() for ranks that know their numbers and have a way of their own to exchange small texts, such as the key-value
// store of another library. Any thread; blocks as init() does.
#pragma once
#include <anello/init.hpp>
#include <memory>

#include "rendezvous/key_value_space.hpp"

namespace anello::rendezvous {

// Joins the world of the processes that share the space; its rank and size are the world's. The settings' rank, size
// and rendezvous do not count. The space is used until the call returns, by the calling thread, and its fence() is
// called once. Throws as init() does, and what the space throws.
World init_through(std::unique_ptr<KeyValueSpace> space, Settings settings);

}  // namespace anello::rendezvous
