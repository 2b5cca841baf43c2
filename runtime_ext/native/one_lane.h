// A program's launches on a single lane, for a worker that has one CPU to itself.
#ifndef TVM_IOS_NATIVE_ONE_LANE_H_
#define TVM_IOS_NATIVE_ONE_LANE_H_

#include "program_file.h"

namespace tvm_ios {

// All launches of a program, one after another, in an order that its waits allow, as
// tvm_ios/program/one_lane.py does it: adjacent tiles become one launch. It has the same bits, and
// every memory plan of the program is safe for it. Throws a Misfit if lanes wait for one another.
Program OnOneLane(const Program& program);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_ONE_LANE_H_
