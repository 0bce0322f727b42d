#include "rendezvous/join/shared_library.hpp"

#include <dlfcn.h>

#include <anello/error.hpp>

#include "ring/base/text.hpp"

namespace anello::rendezvous {

SharedLibrary::SharedLibrary(std::string name, const std::string& package)
    : name_(std::move(name)), handle_(dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!handle_)
    throw Error(ErrorCode::unsupported,
                text(name_, " cannot be loaded (", dlerror(), "); install it (Debian: ", package, ")"));
}

SharedLibrary::Function SharedLibrary::operator[](const char* name) const {
  void* const address = dlsym(handle_, name);
  if (!address) throw Error(ErrorCode::unsupported, text(name_, " has no function ", name));
  return Function(address);
}

}  // namespace anello::rendezvous
