// How the driver's functions are written.
#pragma once

#include "driver.h"

namespace stand_in {

// Whether a context is current to this thread.
bool& in_context();

}  // namespace stand_in

#define CALL(name, ...) extern "C" int name(__VA_ARGS__)

// How every function begins: it is counted, needs a context, and is refused after a kernel failed.
#define IN_CONTEXT                                               \
  ++stand_in::state().calls[__func__];                           \
  if (!stand_in::in_context()) return stand_in::kInvalidContext; \
  if (stand_in::state().sticky) return stand_in::state().sticky

#define GET(type, name, handle)                     \
  auto* name = stand_in::alive<type>(handle);       \
  if (!name) return stand_in::kInvalidHandle
