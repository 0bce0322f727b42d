// A library that is loaded when it is needed, so that programs do not depend on it. It stays for the life of the
// process. Any thread.
#pragma once
#include <string>

namespace anello::rendezvous {

class SharedLibrary {
 public:
  // `name` is "libmunge.so.2", and `package` what Debian calls its package. Throws Error{unsupported} that says why it
  // cannot be loaded, and names the package.
  SharedLibrary(std::string name, const std::string& package);

  // Throws Error{unsupported} that names the library and the function if it has none of that name.
  template <class Function>
  void find(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(address_of(symbol));
  }

 private:
  void* address_of(const char* symbol) const;

  std::string name_;
  void* handle_;
};

}  // namespace anello::rendezvous
