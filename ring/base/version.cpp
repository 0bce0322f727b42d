#include <anello/version.hpp>

#define ANELLO_TEXT_OF(number) #number
#define ANELLO_TEXT(number) ANELLO_TEXT_OF(number)  // makes a text from a macro's value

namespace anello {

std::string_view version() {
  return ANELLO_TEXT(ANELLO_VERSION_MAJOR) "." ANELLO_TEXT(ANELLO_VERSION_MINOR) "." ANELLO_TEXT(ANELLO_VERSION_PATCH);
}

}  // namespace anello
