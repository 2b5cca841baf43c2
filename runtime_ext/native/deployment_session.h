// Runs whichever program of a deployment serves the shapes that are given.
#ifndef TVM_IOS_NATIVE_DEPLOYMENT_SESSION_H_
#define TVM_IOS_NATIVE_DEPLOYMENT_SESSION_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "entry_choice.h"
#include "model_session.h"
#include "session.h"

namespace tvm_ios {

// Programs are opened when they are first needed and stay open; their constants share memory.
// Where a program has more rows than are given, the last row is repeated, and outputs are cut to
// the rows that were given. Outputs are the program's: the end of a model that runs after it, on
// another runtime, is not run.
class DeploymentSession final : public ModelSession {
 public:
  // `lanes` as of ThisMachine. Throws an ffi::Error of kind DeploymentError or ExecutableError.
  // With `one_lane` all of each program for a CPU runs on one lane.
  DeploymentSession(Deployment deployment, std::int64_t lanes, bool one_lane = false);

  const std::vector<Entry>& entries() const { return deployment_.entries; }
  const Machine& machine() const { return machine_; }
  // The number of the entry of the last run; misuse if nothing has run.
  std::size_t Chosen();

  const std::vector<std::string>& input_names() const final { return input_names_; }
  const std::vector<std::string>& output_names() const final { return output_names_; }
  // Of an input that was set or an output of the last run its type; otherwise extents in which
  // programs differ are -1.
  BufferType InputType(std::size_t which) final;
  BufferType OutputType(std::size_t which) final;

  void SetInput(std::size_t which, ffi::TensorView value) final;
  ffi::Tensor GetInput(std::size_t which) final;
  ffi::Tensor GetOutput(std::size_t which) final;
  void GetOutput(std::size_t which, ffi::TensorView value) final;

  // Both are refused.
  void BindState(std::size_t output, std::size_t input) final;
  void ResetStates() final;

  // These throw an ffi::Error of kind DeploymentError, too, if no program serves the inputs, and
  // of kind ExecutableError if one cannot be opened.
  void Run() final;
  std::vector<double> Benchmark(std::int64_t number, std::int64_t repeat) final;
  std::vector<LaunchSpan> Profile() final;
  void Close() final;
  // Opens the programs for ranges that may be taken, which reserve theirs.
  void Reserve() final;
  std::int64_t Workers() final { return machine_.gpu_archs.empty() ? machine_.lanes : 1; }

 private:
  // An input as it was set.
  struct Value {
    BufferType type;
    Block block;
    // Which of all values that were set; 0 before.
    std::uint64_t number = 0;
  };
  struct OpenEntry {
    std::unique_ptr<Session> session;
    // For each of the session's inputs the deployment's, and the number of the value that it has.
    std::vector<std::size_t> inputs;
    std::vector<std::uint64_t> written;
    // For each of the deployment's outputs the session's.
    std::vector<std::size_t> outputs;
  };
  // What the last run was of.
  struct Served {
    std::size_t entry;
    Shapes shapes;
    // How many rows were given, if fewer than the program has.
    std::optional<std::int64_t> rows;
    OpenEntry* open;

    BufferType OutputType(std::size_t which) const;
  };

  OpenEntry& Open(std::size_t entry);
  // Refuses a session that is closed; the mutex is held.
  void RequireOpen() const;
  // The session of the program that serves the inputs, which it gets.
  Session& Ready();
  // Gives a program the inputs, repeating their last rows if it has more.
  void Write(OpenEntry* open, bool more_rows);
  const Served& RequireServed(const std::string& what) const;

  Deployment deployment_;
  Machine machine_;
  bool one_lane_;
  std::vector<std::string> input_names_;
  std::vector<std::string> output_names_;
  std::vector<BufferType> input_types_;
  std::vector<BufferType> output_types_;
  std::vector<Value> values_;
  std::uint64_t values_set_ = 0;
  std::optional<Served> served_;
  // Guards what closing from another thread reads.
  std::mutex mutex_;
  std::map<std::size_t, OpenEntry> open_;
  bool closed_ = false;
  std::atomic<bool> inside_{false};
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_DEPLOYMENT_SESSION_H_
