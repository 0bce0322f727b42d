// A program that uses the shared library: by the C++ and the C interface, with exceptions that are caught by type.
#include <anello/anello.h>

#include <anello/anello.hpp>
#include <anello/testing.hpp>
#include <iostream>

int main() {
  anello::run_world(2, [](anello::World& world) {
    float value = 1;
    world.allreduce(anello::Tensor(&value, 1, anello::DType::f32));
    if (value != 2) throw std::runtime_error("the sum of two ones is not two");
  });
  try {
    anello::run_world(0, [](anello::World&) {});
    return std::cerr << "no ranks were accepted\n", 1;
  } catch (const anello::Error& error) {
    if (error.code() != anello::ErrorCode::invalid_argument) return std::cerr << error.what() << "\n", 1;
  }
  return anello_dtype_size(ANELLO_F32) == 4 ? 0 : 1;
}
