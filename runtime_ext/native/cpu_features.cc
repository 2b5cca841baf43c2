#include "cpu_features.h"

#include <sys/syscall.h>
#include <unistd.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include <fstream>
#include <map>
#include <sstream>

namespace tvm_ios {

namespace {

// LLVM's names of features of x86 and of AArch64, and Linux's.
const std::map<std::string, std::string>& LinuxNames() {
  static const auto* const names = new std::map<std::string, std::string>{
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
      {"neon", "asimd"},
      {"lse", "atomics"},
      {"rdm", "asimdrdm"},
      {"fullfp16", "asimdhp"},
      {"fp16fml", "asimdfhm"},
      {"complxnum", "fcma"},
      {"dotprod", "asimddp"},
      {"i8mm", "i8mm"},
      {"bf16", "bf16"},
      {"sve", "sve"},
      {"sve2", "sve2"},
  };
  return *names;
}

// Asks Linux for the registers of AMX, which a process has to do before any of its threads uses them.
bool AskForMatrices() {
#ifdef SYS_arch_prctl
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// When the library is loaded, so that kernels can be called that no executable has.
const bool matrices_permitted = AskForMatrices();

// The flags of the first processor; x86 calls them so, Arm features.
std::set<std::string> Flags(std::istream& cpuinfo) {
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::size_t colon = line.find(':');
    const std::string key = line.substr(0, line.find_first_of(" \t:"));
    if (colon == std::string::npos || (key != "flags" && key != "Features")) continue;
    std::istringstream words(line.substr(colon + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) {
      if (matrices_permitted || word.compare(0, 4, "amx_") != 0) flags.insert(word);
    }
    return flags;
  }
  return {};
}

std::vector<std::string> Missing(const std::vector<std::string>& required,
                                 const std::set<std::string>& present) {
  std::vector<std::string> missing;
  for (const std::string& name : required) {
    const auto linux_name = LinuxNames().find(name);
    if (linux_name == LinuxNames().end() || present.count(linux_name->second) == 0) {
      missing.push_back(name);
    }
  }
  return missing;
}

}  // namespace

std::vector<std::string> KnownFeatures() {
  std::vector<std::string> names;
  for (const auto& [name, linux_name] : LinuxNames()) names.push_back(name);
  return names;
}

std::vector<std::string> MissingFeatures(const std::vector<std::string>& required) {
  return Missing(required, HostFlags());
}

std::vector<std::string> MissingFeatures(const std::vector<std::string>& required,
                                         std::istream& cpuinfo) {
  return Missing(required, Flags(cpuinfo));
}

#ifdef __aarch64__
// Linux tells each process what the processor has; where one is emulated, /proc may be the host's.
std::set<std::string> HostFlags() {
  constexpr struct {
    unsigned long word;
    int bit;
    const char* name;
  } kBits[] = {{AT_HWCAP, 1, "asimd"},     {AT_HWCAP, 8, "atomics"},   {AT_HWCAP, 10, "asimdhp"},
               {AT_HWCAP, 12, "asimdrdm"}, {AT_HWCAP, 14, "fcma"},     {AT_HWCAP, 20, "asimddp"},
               {AT_HWCAP, 22, "sve"},      {AT_HWCAP, 23, "asimdfhm"}, {AT_HWCAP2, 1, "sve2"},
               {AT_HWCAP2, 13, "i8mm"},    {AT_HWCAP2, 14, "bf16"}};
  std::set<std::string> flags;
  for (const auto& [word, bit, name] : kBits) {
    if (getauxval(word) >> bit & 1) flags.insert(name);
  }
  return flags;
}
#else
std::set<std::string> HostFlags() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  return Flags(cpuinfo);
}
#endif

}  // namespace tvm_ios
