#include "cpu_quota.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tvm_ios {

namespace {

namespace fs = std::filesystem;

double Limit(double quota, double period) {
  return quota > 0 && period > 0 ? quota / period : kNoQuota;
}

double LimitOfVersion2(const fs::path& group) {
  // The first word is "max" where there is no limit, which is no number.
  double quota = 0, period = 0;
  std::ifstream(group / "cpu.max") >> quota >> period;
  return Limit(quota, period);
}

double LimitOfVersion1(const fs::path& group) {
  double quota = 0, period = 0;
  std::ifstream(group / "cpu.cfs_quota_us") >> quota;
  std::ifstream(group / "cpu.cfs_period_us") >> period;
  return Limit(quota, period);
}

bool Names(const std::string& controllers, const std::string& one) {
  std::istringstream words(controllers);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == one) return true;
  }
  return false;
}

// The least limit of a group and of all around it. A container sees its own group as the root
// but may read its path outside; groups that are not there say nothing.
template <typename LimitOf>
double Least(const fs::path& root, const std::string& path, LimitOf limit_of) {
  double least = limit_of(root);
  fs::path group = root;
  for (const fs::path& part : fs::path(path).relative_path()) {
    if (part == "..") break;
    group /= part;
    least = std::min(least, limit_of(group));
  }
  return least;
}

}  // namespace

double CpuQuota(const std::string& groups, const std::string& membership) {
  double least = std::min(LimitOfVersion2(groups), LimitOfVersion1(fs::path(groups) / "cpu"));
  std::ifstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    // number:controllers:path; version 2 names no controllers.
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) least = std::min(least, Least(groups, path, LimitOfVersion2));
    if (Names(controllers, "cpu")) {
      least = std::min(least, Least(fs::path(groups) / "cpu", path, LimitOfVersion1));
    }
  }
  return least;
}

}  // namespace tvm_ios
