// Functions that depend on the type of elements, made from the table in element_types.def. Pure.
#pragma once
#include <anello/tensor.hpp>
#include <array>

#include "ring/base/check.hpp"

namespace anello {

inline constexpr std::array kElementTypes = {
#define ANELLO_ELEMENT_TYPE(name, ...) DType::name,
#include <anello/element_types.def>
};

constexpr bool is_known(DType dtype) {
  constexpr DType first = kElementTypes.front(), last = kElementTypes.back();  // g++ would load them at run time
  return dtype >= first && dtype <= last;
}

// True if elements of this type are moved, but not computed with. Inline, because even the smallest operation calls
// this.
constexpr bool is_only_stored(DType dtype) {
  switch (dtype) {
#define ANELLO_ELEMENT_TYPE(name, value, type, bytes, text, common_name, kind, ...) \
  case DType::name:                                                                 \
    return ElementKind::kind == ElementKind::stored;
#include <anello/element_types.def>
  }
  return true;
}

// Calls use.operator()<T>() with the C++ type T of the elements. Not for types that are only stored; see
// is_only_stored().
template <class Use>
auto with_type(DType dtype, Use&& use) {
  switch (dtype) {
#define ANELLO_ELEMENT_TYPE(name, value, type, bytes, text, common_name, kind, ...) \
  case DType::name:                                                                 \
    if constexpr (ElementKind::kind != ElementKind::stored)                         \
      return use.template operator()<type>();                                       \
    else                                                                            \
      break;
#include <anello/element_types.def>
  }
  ANELLO_CHECK(!"an element type to compute with");
}

}  // namespace anello
