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

  // A function's address, which becomes a pointer of any type: in a struct, `int (*const f)(int) = library["f"]`.
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
  // Throws Error{unsupported} that names the library and the function if it has none of that name.
  Function operator[](const char* name) const;

 private:
  std::string name_;
  void* handle_;
};

}  // namespace anello::rendezvous
