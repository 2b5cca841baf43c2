/* Kernels of TVM up to 0.19, called as functions of tvm-ffi on a range of their tiles.

   It is linked into the library of the kernels, so that this needs no old TVM to run. What the
   kernels ask of their runtime is here: a parallel launch that runs the tiles [begin, end) of the
   loop on the calling thread, workspace, and errors. At the end of this file stands one
   TVM_IOS_KERNEL(symbol, tiles) for each kernel. */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

typedef union {
  int64_t v_int64;
  void* v_handle;
} OldValue;

typedef struct {
  void* sync_handle;
  int32_t num_task;
} ParallelEnv;

typedef int (*ParallelTask)(int task, ParallelEnv* env, void* data);
typedef int (*OldKernel)(OldValue* args, int* codes, int count, OldValue* result, int* result_code,
                         void* resource);

enum { OLD_DLTENSOR = 7, SLOTS = 8, MOST_ARGUMENTS = 512 };

static _Thread_local struct {
  int64_t begin, end, tiles;
} range;
static _Thread_local char message[512];

/* A loop of so many tiles is so many tasks: each does one. A kernel that is one tile may hold any
   number of loops, each one task. */
static int ParallelLaunch(ParallelTask task, void* data, int unused) {
  (void)unused;
  ParallelEnv env = {NULL, range.tiles > 1 ? (int32_t)range.tiles : 1};
  const int64_t begin = range.tiles > 1 ? range.begin : 0;
  const int64_t end = range.tiles > 1 ? range.end : 1;
  for (int64_t tile = begin; tile < end; ++tile) {
    const int failed = task((int)tile, &env, data);
    if (failed) return failed;
  }
  return 0;
}

static void SetLastError(const char* text) {
  strncpy(message, text, sizeof message - 1);
}

static int ParallelBarrier(int task, ParallelEnv* env) {
  (void)task;
  (void)env;
  SetLastError("the kernel has a barrier between its tasks, which run one after another");
  return -1;
}

/* Memory of each thread that its next kernel uses again: fresh pages would cost more than most
   kernels. */
typedef struct {
  void* data;
  size_t bytes;
  int taken;
} Slot;
static _Thread_local Slot slots[SLOTS];
static pthread_key_t thread_end;

static void FreeSlots(void* first) {
  for (Slot* slot = first; slot < (Slot*)first + SLOTS; ++slot) free(slot->data);
}

static void* AllocWorkspace(int device, int id, uint64_t bytes, int code, int bits) {
  (void)device, (void)id, (void)code, (void)bits;
  const size_t rounded = (bytes + 63) / 64 * 64;
  Slot* chosen = NULL;
  for (Slot* slot = slots; slot < slots + SLOTS; ++slot) {
    if (slot->taken) continue;
    if (chosen == NULL || (slot->bytes >= rounded && chosen->bytes < rounded)) chosen = slot;
  }
  if (chosen == NULL) return aligned_alloc(64, rounded);
  if (chosen->bytes < rounded) {
    free(chosen->data);
    chosen->data = aligned_alloc(64, rounded);
    chosen->bytes = chosen->data == NULL ? 0 : rounded;
    pthread_setspecific(thread_end, slots);
  }
  chosen->taken = chosen->data != NULL;
  return chosen->data;
}

static int FreeWorkspace(int device, int id, void* data) {
  (void)device, (void)id;
  for (Slot* slot = slots; slot < slots + SLOTS; ++slot) {
    if (slot->data == data) {
      slot->taken = 0;
      return 0;
    }
  }
  free(data);
  return 0;
}

/* What the compiler put in place of the runtime; absent where no kernel uses it. */
#define RUNTIME(name) extern void* __##name __attribute__((weak))
RUNTIME(TVMBackendParallelLaunch);
RUNTIME(TVMBackendParallelBarrier);
RUNTIME(TVMBackendAllocWorkspace);
RUNTIME(TVMBackendFreeWorkspace);
RUNTIME(TVMAPISetLastError);

#define PROVIDE(name, function) \
  if (&__##name != NULL) __##name = (void*)(function)

__attribute__((constructor)) static void Provide(void) {
  pthread_key_create(&thread_end, FreeSlots);
  PROVIDE(TVMBackendParallelLaunch, ParallelLaunch);
  PROVIDE(TVMBackendParallelBarrier, ParallelBarrier);
  PROVIDE(TVMBackendAllocWorkspace, AllocWorkspace);
  PROVIDE(TVMBackendFreeWorkspace, FreeWorkspace);
  PROVIDE(TVMAPISetLastError, SetLastError);
}

/* Threads outlive the library only if they never come back to it. */
__attribute__((destructor)) static void Withdraw(void) { pthread_key_delete(thread_end); }

static int Refuse(const char* text) {
  TVMFFIErrorSetRaisedFromCStr("RuntimeError", text);
  return -1;
}

static DLTensor* TensorOf(const TVMFFIAny* value) {
  /* The header defines TVMFFITensorGetDLTensorPtr for C++ alone. */
  if (value->type_index == kTVMFFITensor) return (DLTensor*)(value->v_obj + 1);
  return value->type_index == kTVMFFIDLTensorPtr ? (DLTensor*)value->v_ptr : NULL;
}

static int Call(OldKernel kernel, int64_t tiles, const TVMFFIAny* args, int32_t count) {
  OldValue values[MOST_ARGUMENTS], result;
  int codes[MOST_ARGUMENTS], result_code = 0;
  const int32_t tensors = count - 2;
  if (tensors < 1 || tensors > MOST_ARGUMENTS) return Refuse("a kernel takes buffers and a range");
  for (int32_t i = 0; i < tensors; ++i) {
    values[i].v_handle = TensorOf(&args[i]);
    codes[i] = OLD_DLTENSOR;
    if (values[i].v_handle == NULL) return Refuse("an argument of a kernel is no tensor");
  }
  range.begin = args[tensors].v_int64;
  range.end = args[tensors + 1].v_int64;
  range.tiles = tiles;
  if (range.begin < 0 || range.end > tiles) return Refuse("a kernel has no such tiles");
  if (range.begin >= range.end) return 0;
  strcpy(message, "a kernel failed");
  if (kernel(values, codes, tensors, &result, &result_code, NULL)) return Refuse(message);
  return 0;
}

#define EXPORT __attribute__((visibility("default")))

#define TVM_IOS_KERNEL(symbol, tiles)                                                          \
  extern int symbol(OldValue*, int*, int, OldValue*, int*, void*);                             \
  EXPORT int __tvm_ffi_##symbol(void* self, const TVMFFIAny* args, int32_t count,              \
                                TVMFFIAny* result) {                                           \
    (void)self;                                                                                \
    result->type_index = kTVMFFINone;                                                          \
    return Call(symbol, tiles, args, count);                                                   \
  }
