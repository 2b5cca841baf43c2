#include "json_text.h"

#include <utility>

namespace tvm_ios {

namespace {

template <typename T>
T As(const ffi::Any& value, const char* what) {
  if (std::optional<T> typed = value.as<T>()) return *std::move(typed);
  throw Misfit(std::string("something else where ") + what + " should be");
}

// The parser calls itself for every level.
void RejectDeepNesting(std::string_view text) {
  constexpr int kDeepest = 500;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted) {
      if (text[i] == '"') quoted = false;
      if (text[i] == '\\') ++i;
    } else if (text[i] == '"') {
      quoted = true;
    } else if (text[i] == '[' || text[i] == '{') {
      if (++depth > kDeepest) throw Misfit("it is nested too deep");
    } else if (text[i] == ']' || text[i] == '}') {
      --depth;
    }
  }
}

}  // namespace

bool IsUtf8(std::string_view text) {
  // How many bytes have to follow the ones before, and between which bounds the next one is.
  int following = 0, least = 0x80, most = 0xbf;
  for (const unsigned char byte : text) {
    if (following > 0) {
      if (byte < least || byte > most) return false;
      --following, least = 0x80, most = 0xbf;
    } else if (byte >= 0x80) {
      // The rest would be longer than needed, a surrogate, or beyond Unicode.
      if (byte < 0xc2 || byte > 0xf4) return false;
      following = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
      least = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
      most = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    }
  }
  return following == 0;
}

JsonObject ParseObject(std::string_view text) {
  if (!IsUtf8(text)) throw Misfit("it is no text in UTF-8");
  RejectDeepNesting(text);
  ffi::String error;
  const ffi::Any value = ffi::json::Parse(ffi::String(text.data(), text.size()), &error);
  if (!error.empty()) throw Misfit(error);
  return As<JsonObject>(value, "a JSON object");
}

ffi::Any Field(const JsonObject& object, const std::string& key) {
  if (const auto value = object.Get(ffi::String(key))) return *value;
  throw Misfit("'" + key + "' is missing");
}

std::string Text(const ffi::Any& value) { return As<ffi::String>(value, "a text"); }

std::int64_t Natural(const ffi::Any& value) {
  // A bool would pass for a number.
  const auto number = value.as<bool>() ? std::nullopt : value.as<std::int64_t>();
  if (!number || *number < 0 || *number >= std::int64_t{1} << 62) {
    throw Misfit("something else where a count should be");
  }
  return *number;
}

double Number(const ffi::Any& value) {
  if (const auto whole = value.as<bool>() ? std::nullopt : value.as<std::int64_t>()) {
    return static_cast<double>(*whole);
  }
  return As<double>(value, "a number");
}

JsonArray List(const ffi::Any& value) { return As<JsonArray>(value, "a list"); }

JsonObject Object(const ffi::Any& value) { return As<JsonObject>(value, "an object"); }

std::vector<std::string> Texts(const ffi::Any& value) {
  std::vector<std::string> texts;
  for (const ffi::Any& item : List(value)) texts.push_back(Text(item));
  return texts;
}

std::vector<std::int64_t> Naturals(const ffi::Any& value) {
  std::vector<std::int64_t> numbers;
  for (const ffi::Any& item : List(value)) numbers.push_back(Natural(item));
  return numbers;
}

}  // namespace tvm_ios
