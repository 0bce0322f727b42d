// A library that is loaded when it is needed, so that programs do not depend on it. It stays loaded until the process
// ends. Any thread.
#pragma once
#include <string>

namespace anello::rendezvous {

class SharedLibrary {
 public:
  // `name`: for example "libmunge.so.2". `package`: the library's package in Debian. If the library cannot be loaded,
  // throws Error{unsupported} with the reason and the package.
  SharedLibrary(std::string name, const std::string& package);

  // A function's address. It converts to a pointer of any type: in a struct, `int (*const f)(int) = library["f"]`.
  class Function {
   public:
    explicit Function(void* address) : address_(address) {}
    template <class Pointer>
    operator Pointer() const {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<Pointer>(address_);
    }

   private:
    void* address_;
  };
  // If the library has no function of this name, throws Error{unsupported} that names the library and the function.
  Function operator[](const char* name) const;

 private:
  std::string name_;
  void* handle_;
};

}  // namespace anello::rendezvous
