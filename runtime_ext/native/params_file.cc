#include "params_file.h"

#include <cstring>
#include <mutex>

namespace tvm_ios {

namespace {

std::string TypeName(const std::string& stored) {
  static const std::map<std::string, std::string> kNames = {
      {"BOOL", "bool"},    {"I8", "int8"},     {"I16", "int16"},    {"I32", "int32"},
      {"I64", "int64"},    {"U8", "uint8"},    {"U16", "uint16"},   {"U32", "uint32"},
      {"U64", "uint64"},   {"F16", "float16"}, {"BF16", "bfloat16"}, {"F32", "float32"},
      {"F64", "float64"}};
  const auto name = kNames.find(stored);
  if (name == kNames.end()) throw Misfit("there is no type '" + stored + "'");
  return name->second;
}

// The JSON text at the begin of a file, and where the tensors begin.
std::pair<JsonObject, std::size_t> ReadHeader(std::string_view file) {
  // Eight bytes, little end first: the length of the JSON text that follows.
  std::uint64_t length = 0;
  for (int i = 7; i >= 0 && file.size() >= 8; --i) {
    length = length << 8 | static_cast<unsigned char>(file[i]);
  }
  if (file.size() < 8 || length > file.size() - 8) throw Misfit("the header is not complete");
  return {ParseObject(file.substr(8, length)), 8 + length};
}

}  // namespace

std::string SafetensorsMetadata(std::string_view file, const std::string& key) {
  return Text(Field(Object(Field(ReadHeader(file).first, "__metadata__")), key));
}

std::map<std::string, StoredTensor> ReadSafetensors(std::string_view file) {
  const auto [header, begin] = ReadHeader(file);
  const std::string_view data = file.substr(begin);
  std::map<std::string, StoredTensor> tensors;
  for (const auto& [key, value] : header) {
    if (Text(key) == "__metadata__") continue;
    const JsonObject about = Object(value);
    const std::vector<std::int64_t> place = Naturals(Field(about, "data_offsets"));
    StoredTensor tensor{
        {Naturals(Field(about, "shape")), TypeName(Text(Field(about, "dtype")))}, {}};
    if (place.size() != 2 || place[0] > place[1] ||
        static_cast<std::uint64_t>(place[1]) > data.size() ||
        static_cast<std::uint64_t>(place[1] - place[0]) != tensor.type.Bytes()) {
      throw Misfit("the bytes of '" + Text(key) + "' are not complete");
    }
    tensor.bytes = data.substr(place[0], place[1] - place[0]);
    tensors.emplace(Text(key), std::move(tensor));
  }
  return tensors;
}

Block ShareConstant(const std::string& key, std::string_view bytes) {
  static std::mutex mutex;
  static auto* const shared = new std::map<std::string, std::weak_ptr<char>>();
  std::lock_guard<std::mutex> lock(mutex);
  if (Block block = (*shared)[key].lock()) return block;
  for (auto at = shared->begin(); at != shared->end();) {
    at = at->second.expired() ? shared->erase(at) : std::next(at);
  }
  Block block = Allocate(bytes.size());
  if (!bytes.empty()) std::memcpy(block.get(), bytes.data(), bytes.size());
  (*shared)[key] = block;
  return block;
}

}  // namespace tvm_ios
