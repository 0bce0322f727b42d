// The kinds of operations and their facts, from the table in collectives.def. Pure.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace anello {

enum class Kind : std::uint8_t {
#define ANELLO_COLLECTIVE(name, value, ...) name = value,
#include "ring/base/collectives.def"
};

inline constexpr std::array kAllKinds = {
#define ANELLO_COLLECTIVE(name, ...) Kind::name,
#include "ring/base/collectives.def"
};

std::string_view name(Kind kind);  // "allgather"; "?" if the value is not a Kind

enum class Root : std::uint8_t { none, from, to };

// The columns of the table.
struct KindFacts {
  bool reduces = false;
  Root root = Root::none;
  bool parts = false, equal_results = false, may_be_direct = false;
};

constexpr KindFacts facts_of(Kind kind) {
  switch (kind) {
#define ANELLO_COLLECTIVE(name, value, reduces, root, parts, equal_results, may_be_direct) \
  case Kind::name:                                                                         \
    return {reduces, Root::root, parts, equal_results, may_be_direct};
#include "ring/base/collectives.def"
  }
  return {};
}

}  // namespace anello
