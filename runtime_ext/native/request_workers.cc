#include "request_workers.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "affinity.h"
#include "exclusive.h"

namespace tvm_ios {

namespace {

Result RunRequest(ModelSession* session, const Request& request) {
  const std::vector<std::string>& names = session->input_names();
  for (const auto& [name, value] : request) {
    if (std::find(names.begin(), names.end(), std::string(name)) == names.end()) {
      Misuse("there is no input '" + std::string(name) + "'");
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto value = request.Get(ffi::String(names[i]));
    // What the request before had is not this one's.
    if (!value) Misuse("input '" + names[i] + "' is missing");
    session->SetInput(i, *value);
  }
  session->Run();
  Result outputs;
  for (std::size_t i = 0; i < session->output_names().size(); ++i) {
    outputs.push_back(session->GetOutput(i));
  }
  return outputs;
}

}  // namespace

ffi::Array<Result> RequestWorkers::RunMany(const ffi::Array<Request>& requests,
                                           std::int64_t workers) {
  // Destroyed after the next one, when nobody is inside any more.
  const std::unique_ptr<RequestWorkers, void (*)(RequestWorkers*)> leaving(
      this, [](RequestWorkers* self) { self->EndIfClosed(); });
  const Exclusive exclusive(&inside_);
  if (closed_.load(std::memory_order_relaxed)) throw ffi::Error("BusyError", "this session is closed; make a new one", "");
  if (workers < 1) {
    Misuse(std::to_string(workers) + " workers can run nothing: take one or more");
  }
  std::vector<ModelSession*> sessions;
  if (workers == 1) {
    if (!alone_) alone_ = Open(false);
    sessions.push_back(alone_.get());
  } else {
    while (sessions_.size() < static_cast<std::size_t>(workers)) sessions_.push_back(Open(true));
    for (std::int64_t i = 0; i < workers; ++i) sessions.push_back(sessions_[i].get());
  }
  const std::vector<int> cpus = AllowedCpus();
  const bool bound = workers > 1 && static_cast<std::size_t>(workers) == cpus.size();
  const std::size_t count = requests.size();
  std::vector<Result> results(count);
  std::vector<std::optional<ffi::Error>> errors(count);
  // Decides who has a request; its result is seen when the thread has ended.
  std::atomic<std::size_t> next{0};
  const auto work = [&](std::size_t worker) {
    std::optional<PinnedHere> here;
    if (bound) here.emplace(cpus[worker]);
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      try {
        results[i] = RunRequest(sessions[worker], requests[i]);
      } catch (const ffi::Error& error) {
        errors[i] = error;
      } catch (const std::exception& error) {
        errors[i] = ffi::Error("RuntimeError", error.what(), "");
      }
    }
  };
  std::vector<std::thread> threads;
  const auto join = [&] {
    for (std::thread& thread : threads) thread.join();
  };
  try {
    for (std::size_t i = 1; i < sessions.size() && i < count; ++i) threads.emplace_back(work, i);
  } catch (...) {
    next.store(count, std::memory_order_relaxed);
    join();
    throw;
  }
  work(0);
  join();
  for (std::size_t i = 0; i < count; ++i) {
    if (!errors[i]) continue;
    const auto failed = std::count_if(errors.begin(), errors.end(),
                                      [](const auto& error) { return error.has_value(); });
    const std::string others =
        failed > 1 ? " (and " + std::to_string(failed - 1) + " more)" : std::string();
    throw ffi::Error(std::string(errors[i]->kind()),
                     "request " + std::to_string(i) + " of " + std::to_string(count) +
                         " failed" + others + ": " + std::string(errors[i]->message()),
                     "");
  }
  return ffi::Array<Result>(results.begin(), results.end());
}

std::unique_ptr<ModelSession> RequestWorkers::Open(bool one_lane) const {
  std::unique_ptr<ModelSession> session = open_(one_lane);
  if (reserved_) session->Reserve();
  return session;
}

void RequestWorkers::Reserve() {
  const std::unique_ptr<RequestWorkers, void (*)(RequestWorkers*)> leaving(
      this, [](RequestWorkers* self) { self->EndIfClosed(); });
  const Exclusive exclusive(&inside_);
  reserved_ = true;
  if (alone_) alone_->Reserve();
  for (const std::unique_ptr<ModelSession>& session : sessions_) session->Reserve();
}

void RequestWorkers::Close() {
  closed_.store(true, std::memory_order_seq_cst);
  EndIfClosed();
}

// Either Close sees that nobody is inside, or whoever is sees on leaving that it is closed (both
// sides sequentially consistent).
void RequestWorkers::EndIfClosed() {
  if (!closed_.load(std::memory_order_seq_cst) || inside_.exchange(true, std::memory_order_seq_cst)) {
    return;
  }
  alone_.reset();
  sessions_.clear();
  inside_.store(false, std::memory_order_release);
}

}  // namespace tvm_ios
