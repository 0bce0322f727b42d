// Nodes that return a number of the world or of a process set, such as its size. A node reads the number when it runs.
#pragma once
#include <cstdint>

#include "trainer/python/tensorflow/attributes.hpp"

namespace anello::tensorflow {

// Returns a number of a process set, or of the world. These throw Failure.
using NumberOf = int32_t(int process_set);
NumberOf rank_in, size_of, is_included_in, local_rank, local_size;

class Number {
 public:
  Number(NumberOf* number, int process_set) : number_(number), process_set_(process_set) {}
  void run(TF_OpKernelContext* context) const;

 private:
  NumberOf* number_;
  int process_set_;
};

template <NumberOf* number>
struct SetNumber : Number {
  explicit SetNumber(TF_OpKernelConstruction* node) : Number(number, int_attribute(node, "process_set")) {}
};
template <NumberOf* number>
struct WorldNumber : Number {
  explicit WorldNumber(TF_OpKernelConstruction*) : Number(number, 0) {}
};

}  // namespace anello::tensorflow
