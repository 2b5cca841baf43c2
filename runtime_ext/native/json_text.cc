#include "json_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace tvm_ios {

namespace {

template <typename T>
T As(const ffi::Any& value, const char* what) {
  if (std::optional<T> found = value.as<T>()) return *std::move(found);
  throw Misfit(std::string("something else where ") + what + " should be");
}

void AppendEscape(std::string* out, unsigned unit) {
  std::array<char, 8> buffer;
  std::snprintf(buffer.data(), buffer.size(), "\\u%04x", unit);
  *out += buffer.data();
}

void AppendText(std::string* out, std::string_view text) {
  *out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const int size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    unsigned point = size == 1 ? lead : lead & (0xff >> (size + 1));
    for (int k = 1; k < size && i + k < text.size(); ++k) point = point << 6 | (text[i + k] & 63);
    i += size;
    static constexpr std::string_view kNamed = "\"\\\n\r\t\f\b";
    const std::size_t named = point < 0x80 ? kNamed.find(static_cast<char>(point)) : kNamed.npos;
    if (named != kNamed.npos) {
      *out += {'\\', "\"\\nrtfb"[named]};
    } else if (point >= 0x20 && point < 0x7f) {
      *out += static_cast<char>(point);
    } else if (point < 0x10000) {
      AppendEscape(out, point);
    } else {
      AppendEscape(out, 0xd800 + ((point - 0x10000) >> 10));
      AppendEscape(out, 0xdc00 + ((point - 0x10000) & 0x3ff));
    }
  }
  *out += '"';
}

// As Python's repr: the shortest digits that read back the same, with an exponent only below
// 1e-4 and from 1e16 on.
void AppendFloat(std::string* out, double value) {
  if (std::isnan(value)) {
    *out += "NaN";
    return;
  }
  if (std::signbit(value)) *out += '-';
  value = std::abs(value);
  if (std::isinf(value)) {
    *out += "Infinity";
    return;
  }
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific)
                       .ptr;
  const std::string text(buffer.data(), end);
  const std::size_t mark = text.find('e');
  const int exponent = std::stoi(text.substr(mark + 1));
  std::string digits = text.substr(0, mark);
  if (exponent < -4 || exponent >= 16) {
    *out += digits + text.substr(mark);
    return;
  }
  digits.erase(std::remove(digits.begin(), digits.end(), '.'), digits.end());
  if (exponent < 0) {
    *out += "0." + std::string(-exponent - 1, '0') + digits;
    return;
  }
  const auto whole = static_cast<std::size_t>(exponent + 1);
  if (digits.size() < whole + 1) digits.resize(whole + 1, '0');
  *out += digits.substr(0, whole) + "." + digits.substr(whole);
}

void Append(std::string* out, const ffi::Any& value) {
  if (auto object = value.as<JsonObject>()) {
    std::vector<std::pair<std::string, ffi::Any>> fields;
    for (const auto& [key, field] : *object) fields.emplace_back(Text(key), field);
    std::sort(fields.begin(), fields.end(),
              [](const auto& one, const auto& other) { return one.first < other.first; });
    *out += '{';
    for (const auto& [key, field] : fields) {
      if (out->back() != '{') *out += ", ";
      AppendText(out, key);
      *out += ": ";
      Append(out, field);
    }
    *out += '}';
  } else if (auto list = value.as<JsonArray>()) {
    *out += '[';
    bool first = true;
    for (const ffi::Any& item : *list) {
      if (!std::exchange(first, false)) *out += ", ";
      Append(out, item);
    }
    *out += ']';
  } else if (auto text = value.as<ffi::String>()) {
    AppendText(out, {text->data(), text->size()});
  } else if (auto flag = value.as<bool>()) {
    *out += *flag ? "true" : "false";
  } else if (auto number = value.as<std::int64_t>()) {
    *out += std::to_string(*number);
  } else if (auto real = value.as<double>()) {
    AppendFloat(out, *real);
  } else {
    *out += "null";
  }
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

JsonObject ParseObject(std::string_view text) {
  RejectDeepNesting(text);
  ffi::String error;
  const ffi::Any value = ffi::json::Parse(ffi::String(text.data(), text.size()), &error);
  if (!error.empty()) throw Misfit(error);
  return As<JsonObject>(value, "a JSON object");
}

ffi::Any Field(const JsonObject& object, const std::string& key) {
  if (const auto found = object.Get(ffi::String(key))) return *found;
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

JsonArray List(const ffi::Any& value) { return As<JsonArray>(value, "a list"); }

JsonObject Object(const ffi::Any& value) { return As<JsonObject>(value, "an object"); }

std::vector<std::int64_t> Naturals(const ffi::Any& value) {
  std::vector<std::int64_t> numbers;
  for (const ffi::Any& item : List(value)) numbers.push_back(Natural(item));
  return numbers;
}

std::string SortedJson(const ffi::Any& value) {
  std::string text;
  Append(&text, value);
  return text;
}

}  // namespace tvm_ios
