// The version of Anello. This is the only place that has it; CMake reads it from here.
#pragma once
#include <anello/export.h>
#include <string_view>

// Version of the headers with which a program is compiled, for the preprocessor.
#define ANELLO_VERSION_MAJOR 0
#define ANELLO_VERSION_MINOR 2
#define ANELLO_VERSION_PATCH 0

ANELLO_API_BEGIN
namespace anello {

// Returns the version of the library that is running, for example "0.2.0". The text is followed by a zero byte. Any
// thread; never blocks.
std::string_view version();

}  // namespace anello
ANELLO_API_END
