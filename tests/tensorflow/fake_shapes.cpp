// The functions of the fake TensorFlow's C API that shape functions call.
#include <algorithm>

#include "tests/tensorflow/fake_registry.hpp"

namespace anello::tensorflow::fake {
namespace {

constexpr int kInvalidArgument = 3;

TF_ShapeHandle* handle_of(Shape shape) {
  auto* made = new TF_ShapeHandle;
  made->shape = std::move(shape);
  return made;
}

// Returns a place in a list of shapes; nullptr, with the reason in `status`, if there is none.
Shape* place(std::vector<Shape>& shapes, int index, TF_Status* status) {
  if (index >= 0 && index < int(shapes.size())) return &shapes[std::size_t(index)];
  status->code = kInvalidArgument;
  status->message = "there is no shape of number " + std::to_string(index);
  return nullptr;
}

void get_input(TF_ShapeInferenceContext* context, int index, TF_ShapeHandle* shape, TF_Status* status) {
  if (fails("TF_ShapeInferenceContextGetInput", status)) return;
  if (const Shape* found = place(context->inputs, index, status)) shape->shape = *found;
}

void set_output(TF_ShapeInferenceContext* context, int index, TF_ShapeHandle* shape, TF_Status* status) {
  if (fails("TF_ShapeInferenceContextSetOutput", status)) return;
  if (Shape* found = place(context->outputs, index, status)) *found = shape->shape;
}

void subshape(TF_ShapeInferenceContext*, TF_ShapeHandle* shape, int64_t start, int64_t end, TF_ShapeHandle* result,
              TF_Status* status) {
  if (fails("TF_ShapeInferenceContextSubshape", status)) return;
  const auto& dims = shape->shape.dims;
  if (!shape->shape.known || start < 0 || start > end || end > int64_t(dims.size())) misused("such a part of a shape");
  result->shape = {true, {dims.begin() + start, dims.begin() + end}};
}

void concatenate(TF_ShapeInferenceContext*, TF_ShapeHandle* first, TF_ShapeHandle* second, TF_ShapeHandle* result,
                 TF_Status* status) {
  if (fails("TF_ShapeInferenceContextConcatenateShapes", status)) return;
  result->shape = first->shape;
  result->shape.known = first->shape.known && second->shape.known;
  result->shape.dims.insert(result->shape.dims.end(), second->shape.dims.begin(), second->shape.dims.end());
}

}  // namespace

void add_functions_of_shapes(CApi& all) {
  all.ShapeInferenceContextNumInputs = [](TF_ShapeInferenceContext* context) {
    return int64_t(context->inputs.size());
  };
  all.NewShapeHandle = [] { return handle_of({}); };
  all.DeleteShapeHandle = [](TF_ShapeHandle* shape) { delete shape; };
  all.ShapeInferenceContextGetInput = get_input;
  all.ShapeInferenceContextSetOutput = set_output;
  all.ShapeInferenceContextScalar = [](TF_ShapeInferenceContext*) { return handle_of({true, {}}); };
  all.ShapeInferenceContextRankKnown = [](TF_ShapeInferenceContext*, TF_ShapeHandle* shape) {
    return int(shape->shape.known);
  };
  all.ShapeInferenceContextRank = [](TF_ShapeInferenceContext*, TF_ShapeHandle* shape) {
    return shape->shape.known ? int64_t(shape->shape.dims.size()) : -1;
  };
  all.ShapeInferenceContextSubshape = subshape;
  all.ShapeInferenceContextVectorFromSize = [](TF_ShapeInferenceContext*, std::size_t size) {
    return handle_of({true, {int64_t(size)}});
  };
  all.ShapeInferenceContextConcatenateShapes = concatenate;
}

}  // namespace anello::tensorflow::fake
