#include "trainer/python/tensorflow/shape_functions.hpp"

#include <memory>

namespace anello::tensorflow {
namespace {

constexpr std::size_t kUnknown = std::size_t(-1);

struct DeleteShape {
  void operator()(TF_ShapeHandle* shape) const { tf.DeleteShapeHandle(shape); }
};
using Shape = std::unique_ptr<TF_ShapeHandle, DeleteShape>;

// Reads and sets the shapes of one node. Errors stay in `status`; TensorFlow reads them there.
struct Shapes {
  TF_ShapeInferenceContext* context;
  TF_Status* status;

  int inputs() const { return int(tf.ShapeInferenceContextNumInputs(context)); }
  Shape input(int index) const {
    Shape shape(tf.NewShapeHandle());
    tf.ShapeInferenceContextGetInput(context, index, shape.get(), status);
    return shape;
  }
  void set_output(int index, const Shape& shape) const {
    tf.ShapeInferenceContextSetOutput(context, index, shape.get(), status);
  }
  Shape vector(std::size_t size) const { return Shape(tf.ShapeInferenceContextVectorFromSize(context, size)); }
  Shape concatenate(const Shape& first, const Shape& second) const {
    Shape shape(tf.NewShapeHandle());
    tf.ShapeInferenceContextConcatenateShapes(context, first.get(), second.get(), shape.get(), status);
    return shape;
  }
  // Sets no output if the input's shape is unknown: the output's shape then stays unknown.
  void set_other_rows(int index) const {
    const Shape shape = input(index);
    if (!tf.ShapeInferenceContextRankKnown(context, shape.get())) return;
    const int64_t dimensions = tf.ShapeInferenceContextRank(context, shape.get());
    if (dimensions == 0) return;
    const Shape row(tf.NewShapeHandle());
    tf.ShapeInferenceContextSubshape(context, shape.get(), 1, dimensions, row.get(), status);
    set_output(index, concatenate(vector(kUnknown), row));
  }
};

}  // namespace

void same_shapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  const Shapes shapes{context, status};
  for (int k = 0; k < shapes.inputs() - 1; k++) shapes.set_output(k, shapes.input(k));
}

void other_rows(TF_ShapeInferenceContext* context, TF_Status* status) {
  const Shapes shapes{context, status};
  for (int k = 0; k < shapes.inputs() - 1; k++) shapes.set_other_rows(k);
}

void allgather_shapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  other_rows(context, status);
  const Shapes shapes{context, status};
  const int tensors = shapes.inputs() - 1;
  shapes.set_output(tensors, shapes.concatenate(shapes.vector(std::size_t(tensors)), shapes.vector(kUnknown)));
}

void alltoall_shapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  const Shapes shapes{context, status};
  shapes.set_other_rows(0);
  shapes.set_output(1, shapes.vector(kUnknown));
}

void scalar_shape(TF_ShapeInferenceContext* context, TF_Status* status) {
  Shapes{context, status}.set_output(0, Shape(tf.ShapeInferenceContextScalar(context)));
}

void no_shapes(TF_ShapeInferenceContext*, TF_Status*) {}

}  // namespace anello::tensorflow
