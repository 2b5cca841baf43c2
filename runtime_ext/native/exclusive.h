// One caller at a time; others are refused instead of made to wait.
#ifndef TVM_IOS_NATIVE_EXCLUSIVE_H_
#define TVM_IOS_NATIVE_EXCLUSIVE_H_

#include <atomic>

#include "model_session.h"

namespace tvm_ios {

// Inside for as long as this object lives; misuse if another caller is.
class Exclusive {
 public:
  explicit Exclusive(std::atomic<bool>* inside) : inside_(inside) {
    // What the one before has left is seen. Where who leaves asks after that whether to close, the
    // order must be sequentially consistent.
    if (inside_->exchange(true, std::memory_order_acquire)) {
      Misuse("this session is in use by another thread; make one session a thread");
    }
  }
  ~Exclusive() { inside_->store(false, std::memory_order_seq_cst); }
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;

 private:
  std::atomic<bool>* inside_;
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_EXCLUSIVE_H_
