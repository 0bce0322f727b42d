// The text of a hash. Pure; any thread.
#pragma once
#include <anello/elastic_state.hpp>
#include <string>

namespace anello::elastic {

std::string hex(const Hash& hash);

}  // namespace anello::elastic
