#include "cpu_features.h"

#include <fstream>
#include <map>
#include <sstream>

namespace tvm_ios {

std::string LinuxNameOfFeature(const std::string& llvm_name) {
  static const std::map<std::string, std::string> kNames = {
      {"sse3", "pni"},
      {"ssse3", "ssse3"},
      {"sse4.1", "sse4_1"},
      {"sse4.2", "sse4_2"},
      {"popcnt", "popcnt"},
      {"lzcnt", "abm"},
      {"movbe", "movbe"},
      {"f16c", "f16c"},
      {"fma", "fma"},
      {"avx", "avx"},
      {"avx2", "avx2"},
      {"bmi", "bmi1"},
      {"bmi2", "bmi2"},
      {"avxvnni", "avx_vnni"},
      {"avx512f", "avx512f"},
      {"avx512bw", "avx512bw"},
      {"avx512cd", "avx512cd"},
      {"avx512dq", "avx512dq"},
      {"avx512vl", "avx512vl"},
      {"avx512ifma", "avx512ifma"},
      {"avx512vbmi", "avx512vbmi"},
      {"avx512vbmi2", "avx512_vbmi2"},
      {"avx512vnni", "avx512_vnni"},
      {"avx512bitalg", "avx512_bitalg"},
      {"avx512vpopcntdq", "avx512_vpopcntdq"},
      {"avx512bf16", "avx512_bf16"},
      {"avx512fp16", "avx512_fp16"},
      {"amx-tile", "amx_tile"},
      {"amx-int8", "amx_int8"},
      {"amx-bf16", "amx_bf16"},
  };
  const auto found = kNames.find(llvm_name);
  return found == kNames.end() ? std::string() : found->second;
}

std::set<std::string> HostFlags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, 5, "flags") != 0) continue;
    std::istringstream words(line.substr(colon + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

}  // namespace tvm_ios
