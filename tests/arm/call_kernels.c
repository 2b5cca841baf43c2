// Runs kernels of shared libraries as its standard input says, and writes the buffers to its output.
//
// A call is the library's path and the symbol, each after its length; the number of buffers, and of
// each its type (code, bits), its rank, extents and bytes; the number of integers that follow the
// buffers, and these. Numbers are of 64 bits. The answer is the bytes of all buffers.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

enum { kMost = 64, kAlignment = 64 };

static void Get(void* to, size_t size) {
  if (fread(to, 1, size, stdin) != size) exit(feof(stdin) ? 0 : 1);
}

static int64_t Number(void) {
  int64_t number;
  Get(&number, sizeof(number));
  return number;
}

static char* Text(void) {
  const int64_t length = Number();
  char* text = calloc(length + 1, 1);
  Get(text, length);
  return text;
}

// Opened libraries stay.
static TVMFFISafeCallType Function(const char* path, const char* symbol) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* found = library ? dlsym(library, symbol) : NULL;
  if (!found) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return (TVMFFISafeCallType)found;
}

// What generic kernels call of the library for others, which is not here.
void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  fprintf(stderr, "%s: %s\n", kind, message);
}

void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t count) {
  fprintf(stderr, "%s: ", kind);
  for (int i = 0; i < count; ++i) fputs(parts[i], stderr);
  fputc('\n', stderr);
}

int main(void) {
  for (;;) {
    char* path = Text();
    char* symbol = Text();
    TVMFFISafeCallType call = Function(path, symbol);
    TVMFFIAny arguments[kMost], result;
    DLTensor tensors[kMost];
    size_t sizes[kMost];
    memset(arguments, 0, sizeof(arguments));
    memset(tensors, 0, sizeof(tensors));
    memset(&result, 0, sizeof(result));
    const int count = (int)Number();
    for (int i = 0; i < count; ++i) {
      DLTensor* tensor = &tensors[i];
      tensor->device.device_type = kDLCPU;
      tensor->dtype.code = (uint8_t)Number();
      tensor->dtype.bits = (uint8_t)Number();
      tensor->dtype.lanes = 1;
      tensor->ndim = (int32_t)Number();
      tensor->shape = calloc(tensor->ndim + 1, sizeof(int64_t));
      sizes[i] = tensor->dtype.bits / 8;
      for (int axis = 0; axis < tensor->ndim; ++axis) {
        tensor->shape[axis] = Number();
        sizes[i] *= tensor->shape[axis];
      }
      tensor->data = aligned_alloc(kAlignment, (sizes[i] / kAlignment + 2) * kAlignment);
      Get(tensor->data, sizes[i]);
      arguments[i].type_index = kTVMFFIDLTensorPtr;
      arguments[i].v_ptr = tensor;
    }
    const int integers = (int)Number();
    for (int i = 0; i < integers; ++i) {
      arguments[count + i].type_index = kTVMFFIInt;
      arguments[count + i].v_int64 = Number();
    }
    if (call(NULL, arguments, count + integers, &result)) {
      fprintf(stderr, "%s failed\n", symbol);
      return 1;
    }
    for (int i = 0; i < count; ++i) {
      fwrite(tensors[i].data, 1, sizes[i], stdout);
      free(tensors[i].data);
      free(tensors[i].shape);
    }
    fflush(stdout);
    free(path);
    free(symbol);
  }
}
