// Many requests at once: each on a worker, a session of its own on one lane.
#ifndef TVM_IOS_NATIVE_REQUEST_WORKERS_H_
#define TVM_IOS_NATIVE_REQUEST_WORKERS_H_

#include <tvm/ffi/tvm_ffi.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "model_session.h"

namespace tvm_ios {

// Opens what a worker runs requests on: as a worker of several on one lane.
using OpenWorker = std::function<std::unique_ptr<ModelSession>(bool one_lane)>;

// Inputs by name; all of them.
using Request = ffi::Map<ffi::String, ffi::Tensor>;
// Outputs in the model's order.
using Result = ffi::Array<ffi::Tensor>;

class RequestWorkers {
 public:
  explicit RequestWorkers(OpenWorker open) : open_(std::move(open)) {}

  // Runs requests on so many workers, each on the first one that is free, and gives the outputs in
  // the order of the requests. Sessions of workers are opened when they are first needed and stay
  // open; they share weights and kernels. As many workers as CPUs are bound to one each.
  //
  // If requests fail the others still run; then this throws an ffi::Error of the first one's kind,
  // which says which it is. Misuse without a worker, or if another thread is inside.
  ffi::Array<Result> RunMany(const ffi::Array<Request>& requests, std::int64_t workers);

  // Lets each worker's session reserve its memory, those that will be opened too. Misuse if another
  // thread is inside.
  void Reserve();

  // Ends the workers, after the requests in progress if there are some; later ones are refused.
  void Close();

 private:
  void EndIfClosed();
  std::unique_ptr<ModelSession> Open(bool one_lane) const;

  OpenWorker open_;
  // Of one worker alone, on all lanes; and of several.
  std::unique_ptr<ModelSession> alone_;
  std::vector<std::unique_ptr<ModelSession>> sessions_;
  bool reserved_ = false;
  std::atomic<bool> closed_{false};
  std::atomic<bool> inside_{false};
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_REQUEST_WORKERS_H_
