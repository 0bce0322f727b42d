#include "rendezvous/launch/base/shell_words.hpp"

#include <anello/error.hpp>

#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

class Splitter {
 public:
  Splitter(std::string_view what, std::string_view line) : what_(what), line_(line) {}

  std::vector<std::string> words() {
    while (at_ < line_.size()) {
      const char c = line_[at_++];
      if (std::string_view(" \t\r\n").find(c) != std::string_view::npos)
        end_word();
      else if (c == '\'')
        single_quotes();
      else if (c == '"')
        double_quotes();
      else
        add(c == '\\' ? next("a backslash is at the end") : c);
    }
    end_word();
    return std::move(words_);
  }

 private:
  void add(char c) {
    word_ += c;
    in_word_ = true;
  }
  void end_word() {
    if (in_word_) words_.push_back(std::move(word_));
    word_.clear();
    in_word_ = false;
  }
  char next(const char* otherwise) {
    if (at_ == line_.size())
      throw Error(ErrorCode::configuration, text(what_, ": ", otherwise, ": ", printable(line_)));
    return line_[at_++];
  }
  void single_quotes() {
    in_word_ = true;
    for (char c; (c = next("a ' has no second one")) != '\'';) word_ += c;
  }
  // In double quotes only these characters need a backslash. Before any other character, the backslash is kept.
  void double_quotes() {
    in_word_ = true;
    const char* const open = "a \" has no second one";
    for (char c; (c = next(open)) != '"';) {
      if (c == '\\' && at_ < line_.size() && std::string_view("\"\\$`").find(line_[at_]) != std::string_view::npos)
        c = next(open);
      word_ += c;
    }
  }

  const std::string_view what_, line_;
  std::size_t at_ = 0;
  std::string word_;
  bool in_word_ = false;
  std::vector<std::string> words_;
};

}  // namespace

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

std::vector<std::string> split_words(std::string_view what, std::string_view line) {
  return Splitter(what, line).words();
}

}  // namespace anello::launch
