#include "compiler_log.h"

#include <array>
#include <iostream>
#include <streambuf>
#include <string_view>
#include <utility>

namespace tvm_ios {
namespace {

// Parts of the messages: of an annotation of TVM's operators that LLVM's code needs not, and of a
// power that an operator asks for.
constexpr std::array<std::string_view, 2> kDropped{
    ": Warning: Unknown pragma ", ": Warning: Detected pow(x, y) where y >= 3"};

// The thread's last message was dropped, and its line's end is to be, which comes apart.
thread_local bool line_dropped = false;

class WithoutWarnings : public std::streambuf {
 public:
  WithoutWarnings() : below_(std::cerr.rdbuf(this)) {}
  // The library may be unloaded before std::cerr is written to for the last time.
  ~WithoutWarnings() override { std::cerr.rdbuf(below_); }

 protected:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const std::string_view message(text, static_cast<std::size_t>(size));
    line_dropped = false;
    for (const std::string_view part : kDropped) {
      line_dropped = line_dropped || message.find(part) != std::string_view::npos;
    }
    return line_dropped ? size : below_->sputn(text, size);
  }
  int_type overflow(int_type character) override {
    if (std::exchange(line_dropped, false) && character == '\n') return character;
    return below_->sputc(traits_type::to_char_type(character));
  }
  int sync() override { return below_->pubsync(); }

 private:
  std::streambuf* const below_;
};

}  // namespace

void DropCompilerWarnings() { static WithoutWarnings filter; }

}  // namespace tvm_ios
