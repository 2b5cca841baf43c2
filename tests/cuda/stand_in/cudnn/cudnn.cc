// A stand-in for cuDNN: convolutions on the CPU, as pending work of the stand-in driver's streams.
//
// It refuses what cuDNN's documentation refuses, and more that a program of ours may not do. A
// convolution is two works: the first fills the workspace, the second reads it, so that a
// workspace or a handle that two streams share shows in results.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../driver.h"

using stand_in::Handle;
using stand_in::Stream;

namespace {

// As in cuDNN's headers.
enum Status {
  kSuccess = 0,
  kNotInitialized = 1001,
  kBadParam = 2000,
  kTooSmall = 2006,
  kStreamMismatch = 2007,
  kNotSupported = 3000,
  kFailed = 5000,
};
enum { kFloat = 0, kHalf = 2 };
enum { kImplicitGemm = 0, kPrecomputedGemm = 1, kGemm = 2, kFft = 4, kWinograd = 6 };
enum { kDefaultMath = 0, kTensorOpMath = 1, kConversionMath = 2, kFmaMath = 3 };
enum { kRelu = 1, kIdentity = 5 };

struct Context : Handle {
  Context() : Handle("cudnn handle") {}
  Stream* stream = nullptr;
};

// What a descriptor of any kind says.
struct Said {
  bool set = false;
  int dtype = kFloat;
  std::array<int, 4> extents{}, strides{};  // of images; extents of weights
  bool channels_last = false;
  std::array<int, 2> pads{}, steps{}, dilations{};
  int groups = 1, math = kDefaultMath;
  int activation = kIdentity;
};

struct Descriptor : Handle {
  explicit Descriptor(const char* kind) : Handle(kind) {}
  Said said;
};

struct Perf {
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, math, reserved[3];
};

std::string& words() {
  static std::string text;
  return text;
}

int refuse(int status, const std::string& why) {
  words() = why;
  return status;
}

int made(void** handle, const char* kind) {
  if (stand_in::reject_in_capture()) return refuse(kBadParam, "a descriptor in a capture");
  *handle = new Descriptor(kind);
  return kSuccess;
}

int destroyed(void* handle) {
  auto* of = stand_in::alive<Descriptor>(handle);
  if (!of) return refuse(kBadParam, "no descriptor");
  of->alive = false;
  return kSuccess;
}

Said* get(void* handle, const char* kind) {
  auto* of = stand_in::alive<Descriptor>(handle);
  return of && !std::strcmp(of->kind, kind) ? &of->said : nullptr;
}

size_t bytes_of(int dtype) { return dtype == kHalf ? 2 : 4; }

size_t span(const Said& of) {
  size_t last = 0;
  for (int axis = 0; axis < 4; ++axis) last += size_t(of.extents[axis] - 1) * of.strides[axis];
  return (last + 1) * bytes_of(of.dtype);
}

float read(int dtype, const void* at, size_t element) {
  if (dtype == kHalf) return static_cast<const _Float16*>(at)[element];
  return static_cast<const float*>(at)[element];
}

void write(int dtype, void* at, size_t element, float value) {
  if (dtype == kHalf) {
    static_cast<_Float16*>(at)[element] = static_cast<_Float16>(value);
  } else {
    static_cast<float*>(at)[element] = value;
  }
}

// Ten bits of fraction, as tensor cores read a float.
float to_tf32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0x1000) & ~0x1fffu;
  std::memcpy(&value, &bits, 4);
  return value;
}

// What a convolution is; descriptors may be destroyed before it runs.
struct Task {
  Said x, w, c, y;
};

int checked(Task* task, void* x, void* w, void* c, void* y) {
  auto *data = get(x, "Tensor"), *weight = get(w, "Filter"), *result = get(y, "Tensor"),
       *window = get(c, "Convolution");
  if (!data || !weight || !result || !window) return refuse(kBadParam, "a wrong descriptor");
  if (!data->set || !weight->set || !window->set || !result->set) {
    return refuse(kBadParam, "a descriptor that was not set");
  }
  if (data->dtype != weight->dtype || data->dtype != result->dtype) {
    return refuse(kBadParam, "types differ");
  }
  if (data->extents[1] != weight->extents[1] * window->groups ||
      weight->extents[0] % window->groups || result->extents[1] != weight->extents[0] ||
      result->extents[0] != data->extents[0]) {
    return refuse(kBadParam, "channels do not fit");
  }
  for (int axis = 0; axis < 2; ++axis) {
    const int reach = (weight->extents[2 + axis] - 1) * window->dilations[axis] + 1;
    const int room = data->extents[2 + axis] + 2 * window->pads[axis] - reach;
    if (room < 0 || result->extents[2 + axis] != room / window->steps[axis] + 1) {
      return refuse(kBadParam, "the result has other extents");
    }
  }
  *task = {*data, *weight, *window, *result};
  return kSuccess;
}

// Whether the channels lie innermost, or outermost; of an image of one pixel they do both.
bool lies(const Said& image, bool last) {
  static const int orders[2][4] = {{0, 1, 2, 3}, {0, 2, 3, 1}};
  int outer = std::numeric_limits<int>::max();
  for (int axis : orders[last]) {
    if (image.extents[axis] == 1) continue;
    if (image.strides[axis] > outer) return false;
    outer = image.strides[axis];
  }
  return true;
}

// What the algorithm does not do, some of it said only when it is run.
int unsupported(const Task& of, int algorithm, bool running) {
  if (!lies(of.x, of.w.channels_last)) {
    return refuse(kNotSupported, "weights in another order than the data");
  }
  if (algorithm == kImplicitGemm) return kSuccess;
  if (algorithm != kPrecomputedGemm) return refuse(kNotSupported, "that algorithm");
  if (!lies(of.y, of.w.channels_last)) {
    return refuse(kNotSupported, "images in different orders");
  }
  if (running && of.c.dilations != std::array<int, 2>{1, 1}) {
    return refuse(kNotSupported, "dilated");
  }
  return kSuccess;
}

size_t weight_elements(const Said& w) {
  return size_t(w.extents[0]) * w.extents[1] * w.extents[2] * w.extents[3];
}

// The weights as floats, in one order.
size_t workspace_of(const Task& of, int algorithm) {
  return algorithm == kImplicitGemm ? 0 : weight_elements(of.w) * 4;
}

float weight_at(const Said& w, const void* at, int o, int i, int y, int x) {
  const auto& e = w.extents;
  const size_t last = ((size_t(o) * e[2] + y) * e[3] + x) * e[1] + i;
  const size_t first = ((size_t(o) * e[1] + i) * e[2] + y) * e[3] + x;
  return read(w.dtype, at, w.channels_last ? last : first);
}

struct Epilogue {
  bool fused = false, relu = false;
  float scale = 0;
  const void *bias = nullptr, *residual = nullptr;
};

size_t at(const Said& image, int n, int c, int h, int w) {
  const auto& s = image.strides;
  return size_t(n) * s[0] + size_t(c) * s[1] + size_t(h) * s[2] + size_t(w) * s[3];
}

void convolve(const Task& of, const void* x, const float* weights, void* y, const Epilogue& after) {
  const auto &xe = of.x.extents, &we = of.w.extents, &ye = of.y.extents;
  const bool rounds = of.x.dtype == kFloat && of.c.math != kFmaMath;
  std::vector<std::pair<size_t, float>> results;
  for (int n = 0; n < ye[0]; ++n) for (int o = 0; o < ye[1]; ++o)
  for (int p = 0; p < ye[2]; ++p) for (int q = 0; q < ye[3]; ++q) {
    const int first = o / (we[0] / of.c.groups) * we[1];
    double sum = 0;
    for (int i = 0; i < we[1]; ++i) for (int r = 0; r < we[2]; ++r) for (int s = 0; s < we[3]; ++s) {
      const int h = p * of.c.steps[0] - of.c.pads[0] + r * of.c.dilations[0];
      const int w = q * of.c.steps[1] - of.c.pads[1] + s * of.c.dilations[1];
      if (h < 0 || w < 0 || h >= xe[2] || w >= xe[3]) continue;
      float a = read(of.x.dtype, x, at(of.x, n, first + i, h, w));
      float b = weights[((size_t(o) * we[1] + i) * we[2] + r) * we[3] + s];
      if (rounds) a = to_tf32(a), b = to_tf32(b);
      sum += double(a) * b;
    }
    const size_t place = at(of.y, n, o, p, q);
    if (after.fused) {
      sum += read(of.y.dtype, after.bias, o);
      if (after.scale) sum += after.scale * read(of.y.dtype, after.residual, place);
      if (after.relu) sum = sum < 0 ? 0 : sum;
    }
    results.emplace_back(place, sum);
  }
  for (auto& [place, value] : results) write(of.y.dtype, y, place, value);
}

int enqueue(Context* context, const Task& of, int algorithm, const void* x, const void* w,
            void* workspace, size_t nbytes, void* y, const Epilogue& after) {
  if (!context->stream) return refuse(kBadParam, "a handle without a stream");
  if (!context->stream->alive) return refuse(kStreamMismatch, "the handle's stream is gone");
  if (int refused = unsupported(of, algorithm, true)) return refused;
  const size_t wanted = workspace_of(of, algorithm);
  if (nbytes < wanted) return refuse(kTooSmall, "the workspace is too small");
  const auto lies = [](const void* at, size_t size) {
    return stand_in::within(stand_in::state().memory, reinterpret_cast<uintptr_t>(at), size);
  };
  const bool fits = lies(x, span(of.x)) && lies(y, span(of.y)) &&
                    lies(w, weight_elements(of.w) * bytes_of(of.w.dtype)) &&
                    (!wanted || lies(workspace, wanted)) &&
                    (!after.fused || lies(after.bias, of.y.extents[1] * bytes_of(of.y.dtype))) &&
                    (!after.scale || lies(after.residual, span(of.y)));
  if (!fits) return refuse(kBadParam, "memory that is not the device's");
  auto own = std::make_shared<std::vector<float>>();
  const auto weights = [=] {
    return wanted ? static_cast<float*>(workspace) : own->data();
  };
  const auto prepare = [=] {
    if (!wanted) own->resize(weight_elements(of.w));
    const auto& e = of.w.extents;
    size_t n = 0;
    for (int o = 0; o < e[0]; ++o) for (int i = 0; i < e[1]; ++i)
    for (int r = 0; r < e[2]; ++r) for (int s = 0; s < e[3]; ++s) {
      weights()[n++] = weight_at(of.w, w, o, i, r, s);
    }
    return stand_in::kSuccess;
  };
  const auto compute = [=] {
    if (!stand_in::idle()) convolve(of, x, weights(), y, after);
    return stand_in::kSuccess;
  };
  if (stand_in::append(context->stream, prepare) || stand_in::append(context->stream, compute)) {
    return refuse(kFailed, "the stream does not take it");
  }
  return kSuccess;
}

}  // namespace

#define CALL(name, ...)                 \
  extern "C" int name(__VA_ARGS__)
#define COUNTED ++stand_in::state().calls[__func__]

extern "C" size_t cudnnGetVersion() { return 92800; }

extern "C" const char* cudnnGetErrorString(int status) {
  switch (status) {
    case kNotInitialized: return "CUDNN_STATUS_NOT_INITIALIZED";
    case kBadParam: return "CUDNN_STATUS_BAD_PARAM";
    case kTooSmall: return "CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT";
    case kStreamMismatch: return "CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH";
    case kNotSupported: return "CUDNN_STATUS_NOT_SUPPORTED";
    default: return "CUDNN_STATUS_EXECUTION_FAILED";
  }
}

extern "C" void cudnnGetLastErrorString(char* text, size_t room) {
  std::strncpy(text, words().c_str(), room - 1);
  text[room - 1] = 0;
  words().clear();
}

CALL(cudnnCreate, void** handle) {
  COUNTED;
  if (stand_in::reject_in_capture()) return refuse(kBadParam, "a handle in a capture");
  *handle = new Context;
  return kSuccess;
}

CALL(cudnnDestroy, void* handle) {
  auto* context = stand_in::alive<Context>(handle);
  if (!context) return refuse(kBadParam, "no handle");
  context->alive = false;
  return kSuccess;
}

CALL(cudnnSetStream, void* handle, void* queue) {
  auto* context = stand_in::alive<Context>(handle);
  auto* stream = stand_in::alive<Stream>(queue);
  if (!context || !stream) return refuse(kBadParam, "no handle or no stream");
  if (stand_in::reject_in_capture()) return refuse(kBadParam, "a stream is set in a capture");
  context->stream = stream;
  return kSuccess;
}

#define DESCRIPTOR(name)                                                                     \
  CALL(cudnnCreate##name##Descriptor, void** handle) { return made(handle, #name); }         \
  CALL(cudnnDestroy##name##Descriptor, void* handle) { return destroyed(handle); }
DESCRIPTOR(Tensor)
DESCRIPTOR(Filter)
DESCRIPTOR(Convolution)
DESCRIPTOR(Activation)

CALL(cudnnSetTensor4dDescriptorEx, void* handle, int dtype, int n, int c, int h, int w, int ns,
     int cs, int hs, int ws) {
  auto* of = get(handle, "Tensor");
  if (!of || (dtype != kFloat && dtype != kHalf)) return refuse(kBadParam, "no image");
  of->dtype = dtype;
  of->extents = {n, c, h, w};
  of->strides = {ns, cs, hs, ws};
  for (int axis = 0; axis < 4; ++axis) {
    if (of->extents[axis] < 1 || of->strides[axis] < 1) return refuse(kBadParam, "an extent");
  }
  of->set = true;
  return kSuccess;
}

CALL(cudnnSetFilter4dDescriptor, void* handle, int dtype, int order, int k, int c, int h, int w) {
  auto* of = get(handle, "Filter");
  if (!of || order < 0 || order > 1 || k < 1 || c < 1 || h < 1 || w < 1) {
    return refuse(kBadParam, "no weights");
  }
  of->dtype = dtype;
  of->extents = {k, c, h, w};
  of->channels_last = order == 1;
  of->set = true;
  return kSuccess;
}

CALL(cudnnSetConvolution2dDescriptor, void* handle, int ph, int pw, int u, int v, int dh, int dw,
     int mode, int dtype) {
  auto* of = get(handle, "Convolution");
  if (!of || ph < 0 || pw < 0 || u < 1 || v < 1 || dh < 1 || dw < 1 || mode != 1) {
    return refuse(kBadParam, "no convolution");
  }
  if (dtype != kFloat) return refuse(kBadParam, "sums are floats");
  of->pads = {ph, pw};
  of->steps = {u, v};
  of->dilations = {dh, dw};
  of->set = true;
  return kSuccess;
}

CALL(cudnnSetConvolutionGroupCount, void* handle, int groups) {
  auto* of = get(handle, "Convolution");
  if (!of || groups < 1) return refuse(kBadParam, "no groups");
  of->groups = groups;
  return kSuccess;
}

CALL(cudnnSetConvolutionMathType, void* handle, int math) {
  auto* of = get(handle, "Convolution");
  if (!of || math < 0 || math > kFmaMath) return refuse(kBadParam, "no math type");
  of->math = math;
  return kSuccess;
}

CALL(cudnnSetActivationDescriptor, void* handle, int mode, int nans, double) {
  auto* of = get(handle, "Activation");
  if (!of) return refuse(kBadParam, "no activation");
  if (nans != 0 || (mode != kRelu && mode != kIdentity)) {
    return refuse(kNotSupported, "an activation that is not fused");
  }
  of->activation = mode;
  of->set = true;
  return kSuccess;
}

// As if the fastest were none that may be used.
CALL(cudnnGetConvolutionForwardAlgorithm_v7, void* handle, void* x, void* w, void* c, void* y,
     int wanted, int* count, Perf* found) {
  COUNTED;
  Task task;
  if (!stand_in::alive<Context>(handle)) return refuse(kBadParam, "no handle");
  if (int refused = checked(&task, x, w, c, y)) return refused;
  const size_t huge = size_t{1} << 40;
  const int math = task.c.math;
  const Perf all[] = {{kWinograd, kNotSupported, 0, 0, 1, math, {}},
                      {kGemm, kSuccess, 1, 16, 0, math, {}},
                      {kPrecomputedGemm, kSuccess, 2, 16, 1, kConversionMath, {}},
                      {kFft, kSuccess, 3, huge, 1, math, {}},
                      {kPrecomputedGemm, kSuccess, 4, workspace_of(task, 1), 1, math, {}},
                      {kImplicitGemm, kSuccess, 5, 0, 1, math, {}}};
  *count = 0;
  for (const Perf& perf : all) {
    if (*count < wanted) found[(*count)++] = perf;
  }
  return kSuccess;
}

CALL(cudnnGetConvolutionForwardWorkspaceSize, void* handle, void* x, void* w, void* c, void* y,
     int algorithm, size_t* nbytes) {
  Task task;
  if (!stand_in::alive<Context>(handle)) return refuse(kBadParam, "no handle");
  if (int refused = checked(&task, x, w, c, y)) return refused;
  *nbytes = size_t{1} << 40;
  if (algorithm == kFft) return kSuccess;
  if (int refused = unsupported(task, algorithm, false)) return refused;
  *nbytes = workspace_of(task, algorithm);
  return kSuccess;
}

CALL(cudnnConvolutionForward, void* handle, const float* alpha, void* x, const void* data, void* w,
     const void* weights, void* c, int algorithm, void* workspace, size_t nbytes, const float* beta,
     void* y, void* result) {
  COUNTED;
  Task task;
  auto* context = stand_in::alive<Context>(handle);
  if (!context || *alpha != 1 || *beta != 0) return refuse(kBadParam, "no handle, or scales");
  if (int refused = checked(&task, x, w, c, y)) return refused;
  return enqueue(context, task, algorithm, data, weights, workspace, nbytes, result, {});
}

CALL(cudnnConvolutionBiasActivationForward, void* handle, const float* alpha, void* x,
     const void* data, void* w, const void* weights, void* c, int algorithm, void* workspace,
     size_t nbytes, const float* scale, void* z, const void* residual, void* b, const void* bias,
     void* a, void* y, void* result) {
  COUNTED;
  Task task;
  auto* context = stand_in::alive<Context>(handle);
  auto *added = get(z, "Tensor"), *biases = get(b, "Tensor"), *activation = get(a, "Activation");
  if (!context || *alpha != 1 || !residual) return refuse(kBadParam, "no handle, or a scale");
  if (!added || !biases || !activation || !biases->set || !activation->set) {
    return refuse(kBadParam, "a wrong descriptor");
  }
  if (int refused = checked(&task, x, w, c, y)) return refused;
  if (added->extents != task.y.extents || added->strides != task.y.strides) {
    return refuse(kNotSupported, "the residual lies otherwise than the result");
  }
  const std::array<int, 4> one_a_channel = {1, task.y.extents[1], 1, 1};
  if (biases->extents != one_a_channel || biases->strides[1] != 1) {
    return refuse(kNotSupported, "the bias is not one number a channel");
  }
  if (activation->activation == kIdentity && algorithm != kPrecomputedGemm) {
    return refuse(kNotSupported, "an identity by that algorithm");
  }
  const Epilogue after = {true, activation->activation == kRelu, *scale, bias, residual};
  return enqueue(context, task, algorithm, data, weights, workspace, nbytes, result, after);
}
