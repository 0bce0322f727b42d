// The attributes of a node, read when its kernel is made.
#pragma once
#include <anello/anello.h>

#include <string>

#include "trainer/python/tensorflow/tf_c_api.hpp"

namespace anello::tensorflow {

// These throw Failure.
int int_attribute(TF_OpKernelConstruction* node, const char* name);
bool bool_attribute(TF_OpKernelConstruction* node, const char* name);
std::string string_attribute(TF_OpKernelConstruction* node, const char* name);

// Returns the node's name, by which the ranks' operations find each other.
std::string name_of(TF_OpKernelConstruction* node);
// Returns the reduction. The attribute has Horovod's number of the reduction.
anello_op reduction_of(TF_OpKernelConstruction* node);
// Reads a number that is stored as text, because TensorFlow's own attributes have 32 bits.
double factor_of(TF_OpKernelConstruction* node, const char* name);
// Returns the type in which elements are sent; 0: the elements' own type.
int wire_of(TF_OpKernelConstruction* node);

}  // namespace anello::tensorflow
