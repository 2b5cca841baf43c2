/* Kernels of TVM up to 0.19, called as functions of tvm-ffi on a range of their tiles.

   It is linked into the library of the kernels, so that this needs no old TVM to run. What the
   kernels ask of their runtime is here: a parallel launch that runs the tiles [begin, end) of one of
   their loops on the calling thread and skips the others, workspace, and errors. At the end of this
   file stands one TVM_IOS_KERNEL for each kernel and what is exported of it: a TVM_IOS_PHASE for
   each loop, or for all of it, and again for each way in which its arguments lie in others. */

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

enum { OLD_DLTENSOR = 7, SLOTS = 8, MOST_ARGUMENTS = 512, MOST_AXES = 8, ALIGNMENT = 64 };

/* What is called of a kernel: the tiles [begin, end) of one of its parallel loops, or all of it. */
typedef struct {
  int phases, phase; /* Loops, and which of them; no loops: all of it. */
  int64_t tiles, begin, end;
  int64_t bytes; /* Of the memory that the loops share, which is the last buffer. */
} Part;

/* An argument that is a range of the outermost axis of the tensor that is given. */
typedef struct {
  int32_t argument, axis;
  int64_t extent, offset; /* Bytes before it. */
} Slice;

static _Thread_local struct {
  Part part;
  int launches; /* Loops that the kernel has come to. */
  int inside;   /* Of a tile. */
  char* shared;
  int64_t used; /* Bytes of it. */
} call;
static _Thread_local char message[512];

/* Each tile is a task: it does its share of the loop. A kernel that runs whole may hold any number
   of loops, each one task. */
static int ParallelLaunch(ParallelTask task, void* data, int unused) {
  (void)unused;
  const int whole = call.part.phases == 0;
  ParallelEnv env = {NULL, whole ? 1 : (int32_t)call.part.tiles};
  const int number = call.launches++;
  if (!whole && number != call.part.phase) return 0;
  const int64_t begin = whole ? 0 : call.part.begin, end = whole ? 1 : call.part.end;
  int failed = 0;
  call.inside = 1;
  for (int64_t tile = begin; tile < end && !failed; ++tile) failed = task((int)tile, &env, data);
  call.inside = 0;
  return failed;
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
  const size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (call.shared != NULL && !call.inside) {
    if (call.used + (int64_t)rounded > call.part.bytes) {
      SetLastError("a kernel wants more memory for its loops than it was built with");
      return NULL;
    }
    void* next = call.shared + call.used;
    call.used += (int64_t)rounded;
    return next;
  }
  Slot* chosen = NULL;
  for (Slot* slot = slots; slot < slots + SLOTS; ++slot) {
    if (slot->taken) continue;
    if (chosen == NULL || (slot->bytes >= rounded && chosen->bytes < rounded)) chosen = slot;
  }
  if (chosen == NULL) return aligned_alloc(ALIGNMENT, rounded);
  if (chosen->bytes < rounded) {
    free(chosen->data);
    chosen->data = aligned_alloc(ALIGNMENT, rounded);
    chosen->bytes = chosen->data == NULL ? 0 : rounded;
    pthread_setspecific(thread_end, slots);
  }
  chosen->taken = chosen->data != NULL;
  return chosen->data;
}

static int FreeWorkspace(int device, int id, void* data) {
  (void)device, (void)id;
  if (call.shared != NULL && (char*)data >= call.shared &&
      (char*)data < call.shared + call.part.bytes)
    return 0;
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

/* Make the tensor a slice of what it is, with its shape in `shape`; it lies without gaps. */
static int Cut(const Slice* slice, DLTensor* tensor, int64_t* shape) {
  if (slice->axis >= tensor->ndim || tensor->ndim > MOST_AXES) return -1;
  memcpy(shape, tensor->shape, tensor->ndim * sizeof *shape);
  shape[slice->axis] = slice->extent;
  tensor->shape = shape;
  tensor->strides = NULL;
  tensor->data = (char*)tensor->data + slice->offset;
  return 0;
}

static int Call(OldKernel kernel, Part part, const Slice* slices, int cuts, const TVMFFIAny* args,
                int32_t count) {
  OldValue values[MOST_ARGUMENTS], result;
  int codes[MOST_ARGUMENTS], result_code = 0;
  const int32_t buffers = count - 2, tensors = buffers - (part.bytes > 0);
  if (tensors < 1 || buffers > MOST_ARGUMENTS) return Refuse("a kernel takes buffers and a range");
  DLTensor copies[buffers];
  for (int32_t i = 0; i < buffers; ++i) {
    const DLTensor* argument = TensorOf(&args[i]);
    if (argument == NULL) return Refuse("an argument of a kernel is no tensor");
    copies[i] = *argument;
    /* Truth values had no code of their own: they were unsigned, of one bit, in a byte. */
    if (argument->dtype.code == kDLBool) copies[i].dtype = (DLDataType){kDLUInt, 1, 1};
    values[i].v_handle = &copies[i];
    codes[i] = OLD_DLTENSOR;
  }
  int64_t shapes[cuts + 1][MOST_AXES];
  for (int i = 0; i < cuts; ++i) {
    const int32_t place = slices[i].argument;
    if (place >= tensors || Cut(&slices[i], &copies[place], shapes[i]))
      return Refuse("a kernel has no such slice");
  }
  part.begin = args[buffers].v_int64;
  part.end = args[buffers + 1].v_int64;
  if (part.begin < 0 || part.end > part.tiles) return Refuse("a kernel has no such tiles");
  if (part.begin >= part.end) return 0;
  call.part = part;
  call.launches = call.inside = 0;
  call.used = 0;
  call.shared = NULL;
  if (part.bytes > 0) {
    call.shared = (char*)copies[tensors].data + copies[tensors].byte_offset;
  }
  strcpy(message, "a kernel failed");
  if (kernel(values, codes, tensors, &result, &result_code, NULL)) return Refuse(message);
  if (part.phases > 0 && call.launches != part.phases) {
    return Refuse("a kernel has other loops than it was built with");
  }
  return 0;
}

#define TVM_IOS_KERNEL(kernel) extern int kernel(OldValue*, int*, int, OldValue*, int*, void*);

#define TVM_IOS_PHASE(kernel, symbol, phase, phases, tiles, bytes, cuts, ...)                  \
  static const Slice slices_of_##symbol[] = {__VA_ARGS__};                                     \
  __attribute__((visibility("default"))) int __tvm_ffi_##symbol(                               \
      void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {                   \
    (void)self;                                                                                \
    result->type_index = kTVMFFINone;                                                          \
    const Part part = {phases, phase, tiles, 0, 0, bytes};                                     \
    return Call(kernel, part, slices_of_##symbol, cuts, args, count);                          \
  }
