// Two forms of init(). init_with() reads the settings after the process's place in its job has been found.
// init_through() is for ranks that already have their numbers, and a way to exchange small texts, such as another
// library's key-value store. Any thread; blocks like init().
#pragma once
#include <anello/init.hpp>
#include <functional>
#include <memory>

#include "rendezvous/join/key_value_space.hpp"

namespace anello::rendezvous {

// If `read` throws, this rank informs the other ranks.
World init_with(const std::function<Settings()>& read);

// Joins the world of the processes that share the space. The space gives rank and size; rank, size and rendezvous in
// the settings are ignored. The calling thread uses the space until the call returns, and calls its fence() once.
// Throws the errors of init(), and all errors of the space.
World init_through(std::unique_ptr<KeyValueSpace> space, Settings settings);

}  // namespace anello::rendezvous
