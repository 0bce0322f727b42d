// The ops that are registered with the fake TensorFlow, parsed from their texts, and the calls that tests let fail.
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <regex>
#include <stdexcept>

#include "tests/tensorflow/fake_registry.hpp"

namespace anello::tensorflow::fake {
namespace {

const std::map<std::string, int>& types() {
  static const std::map<std::string, int> all = {{"float", 1},   {"double", 2},    {"int32", 3},   {"uint8", 4},
                                                 {"int16", 5},   {"int8", 6},      {"string", 7},  {"int64", 9},
                                                 {"bool", 10},   {"bfloat16", 14}, {"uint16", 17}, {"half", 19},
                                                 {"uint32", 22}, {"uint64", 23},   {"qint8", 11},  {"complex64", 8}};
  return all;
}

struct Injected {
  std::mutex mutex;
  std::set<std::string> dropped;
  std::map<std::string, int> failing;  // number of calls before the one that fails
  std::map<std::string, std::function<void()>> hooks;
};
Injected injected;

std::set<std::string> words_of(std::string list) {
  static const std::regex word(R"('([^']*)'|(\w+))");
  std::set<std::string> words;
  for (std::sregex_iterator at(list.begin(), list.end(), word), none; at != none; ++at)
    words.insert((*at)[2].matched ? (*at)[2].str() : (*at)[1].str());
  return words;
}

Attribute value_of(const std::string& kind, const std::string& text) {
  if (kind == "int") return int32_t(std::stoi(text));
  if (kind == "bool" && (text == "true" || text == "false")) return text == "true";
  if (kind == "string" && text.size() >= 2 && text.front() == '\'' && text.back() == '\'')
    return text.substr(1, text.size() - 2);
  throw std::invalid_argument("a default that is no " + kind + ": " + text);
}

void add_attribute(Op& op, const std::string& spec) {
  static const std::regex grammar(R"((\w+): (int|bool|string|(list\()?(\{[^}]*\})\)?)( >= \d+)?( = (.+))?)");
  std::smatch found;
  if (!std::regex_match(spec, found, grammar)) throw std::invalid_argument("not an attribute: " + spec);
  AttributeDefinition made;
  const std::string list = found[4];
  const bool of_texts = list.find('\'') != std::string::npos;
  made.kind = found[3].matched ? "list" : list.empty() ? found[2].str() : of_texts ? "string" : "type";
  made.allowed = words_of(list);
  for (const std::string& each : made.allowed)
    if (!of_texts && !types().contains(each)) throw std::invalid_argument("not a type: " + each);
  if (found[7].matched) made.value_if_missing = value_of(made.kind, found[7]);
  if (!op.attributes.emplace(found[1], made).second) throw std::invalid_argument("there twice: " + spec);
}

Argument argument_of(const Op& op, const std::string& spec) {
  static const std::regex grammar(R"((\w+): (\w+))");
  std::smatch found;
  if (!std::regex_match(spec, found, grammar)) throw std::invalid_argument("not an argument: " + spec);
  const auto attribute = op.attributes.find(found[2]);
  const bool is_attribute =
      attribute != op.attributes.end() && (attribute->second.kind == "type" || attribute->second.kind == "list");
  if (!is_attribute && !types().contains(found[2])) throw std::invalid_argument("no such type: " + spec);
  return {found[1], found[2]};
}

}  // namespace

void misused(const std::string& what) {
  std::fprintf(stderr, "TensorFlow's C API is misused: %s\n", what.c_str());
  std::abort();
}

bool fails(const char* function, TF_Status* status) {
  std::function<void()> hook;
  bool comes = false;
  {
    const std::lock_guard lock(injected.mutex);
    if (const auto found = injected.hooks.find(function); found != injected.hooks.end()) hook = found->second;
    const auto found = injected.failing.find(function);
    comes = found != injected.failing.end() && found->second-- == 0;
  }
  if (hook) hook();
  status->code = comes ? 8 : 0;
  status->message = comes ? std::string("the fake fails in ") + function : "";
  return comes;
}

Op read_op(const TF_OpDefinitionBuilder& builder) {
  Op op{.name = builder.name, .stateful = builder.stateful, .shapes = builder.shapes};
  for (const auto& each : builder.attributes) add_attribute(op, each);
  for (const auto& each : builder.inputs) op.inputs.push_back(argument_of(op, each));
  for (const auto& each : builder.outputs) op.outputs.push_back(argument_of(op, each));
  return op;
}

namespace {

const std::map<std::string, void*>& functions_by_name() {
  static const std::map<std::string, void*> all = [] {
    CApi api = functions_of_ops();
    add_functions_of_tensors(api);
    add_functions_of_shapes(api);
    return std::map<std::string, void*>{
#define ANELLO_TF_NAMED(result, name, arguments) {"TF_" #name, reinterpret_cast<void*>(api.name)},
        ANELLO_TF_FUNCTIONS(ANELLO_TF_NAMED)
#undef ANELLO_TF_NAMED
    };
  }();
  return all;
}

}  // namespace

void* look_up(const char* name) {
  const auto found = functions_by_name().find(name);
  return found == functions_by_name().end() || injected.dropped.contains(name) ? nullptr : found->second;
}

std::vector<std::string> functions() {
  std::vector<std::string> names;
  for (const auto& each : functions_by_name()) names.push_back(each.first);
  return names;
}

void forget_injected() {
  const std::lock_guard lock(injected.mutex);
  injected.dropped.clear();
  injected.failing.clear();
  injected.hooks.clear();
}

void drop(const std::string& function) {
  injected.dropped.insert(function);
}
void fail(const std::string& function, int calls_before) {
  const std::lock_guard lock(injected.mutex);
  injected.failing[function] = calls_before;
}
void call_before(const std::string& function, std::function<void()> hook) {
  const std::lock_guard lock(injected.mutex);
  injected.hooks[function] = std::move(hook);
}

}  // namespace anello::tensorflow::fake
