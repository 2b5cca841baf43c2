// Programs that another machine sends to be timed here. Only texts and numbers pass TVM's RPC.
#ifndef TVM_IOS_NATIVE_TRIAL_H_
#define TVM_IOS_NATIVE_TRIAL_H_

#include <cstdint>
#include <string>

#include "sampling.h"

namespace tvm_ios {

// Makes a program ready, with random data, and runs it once: the number of the trial, and the
// seconds of that run, as JSON. The text is a JSON object of `program`, as program.json has it, and
// `libraries`, the path of the library of each of its kernels. Libraries stay loaded. Throws an
// ffi::Error of kind ExecutableError with one sentence.
std::string OpenTrial(const std::string& text);

// JSON of the samples of TimeProgram; of ProfileLaunches. These two throw an ffi::Error of kind
// ExecutableError if there is no such trial, and as the executor does.
std::string TimeTrial(std::int64_t trial, const Sampling& sampling);
std::string ProfileTrial(std::int64_t trial);
void CloseTrial(std::int64_t trial);

// Unloads libraries, as soon as no trial uses them; the text is a JSON object of `libraries`.
void FreeLibraries(const std::string& text);

// Makes a folder of files that were sent under other names, because equal ones are sent once; the
// text is a JSON object of `folder`, `names`, and where the file of each name is, `paths`.
void GatherFiles(const std::string& text);

// JSON of this machine: `machine` as uname says, `cpuinfo` of its first CPU, its `features` of those
// that decide whether code runs, and how many `lanes` can run at once.
std::string MachineFacts();

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_TRIAL_H_
