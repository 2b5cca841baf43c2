#include "verified_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <system_error>
#include <tuple>
#include <utility>

#include "memory.h"
#include "sha256.h"

namespace tvm_ios {

namespace {

// Stamps of files are as coarse as seconds on some file systems: of a file that was changed later
// than this ago, a further change might not show.
constexpr std::int64_t kSettledNs = 2'000'000'000;

std::int64_t Nanoseconds(const timespec& time) {
  return std::int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

struct Known {
  off_t size;
  std::int64_t modified_ns, changed_ns;
  std::string sum;

  bool operator==(const Known& other) const {
    return std::tie(size, modified_ns, changed_ns, sum) ==
           std::tie(other.size, other.modified_ns, other.changed_ns, other.sum);
  }
};

}  // namespace

bool HasSha256(const std::string& path, const std::string& sum) {
  static std::mutex mutex;
  // By device and inode. Never freed, as a thread may still load while the process ends.
  static auto& verified = *new std::map<std::pair<dev_t, ino_t>, Known>;
  struct stat about;
  if (stat(path.c_str(), &about) != 0) {
    throw std::system_error(errno, std::generic_category(), path);
  }
  const std::pair place(about.st_dev, about.st_ino);
  const Known known{about.st_size, Nanoseconds(about.st_mtim), Nanoseconds(about.st_ctim), sum};
  {
    const std::lock_guard lock(mutex);
    const auto found = verified.find(place);
    if (found != verified.end() && found->second == known) return true;
  }
  const std::int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  if (Sha256(MappedFile(path).bytes()) != sum) return false;
  if (known.changed_ns < now - kSettledNs) {
    const std::lock_guard lock(mutex);
    verified.insert_or_assign(place, known);
  }
  return true;
}

}  // namespace tvm_ios
