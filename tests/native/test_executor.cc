// The executor without Python, made to be built with a sanitizer: random programs against one
// thread, failures in the middle, many executors at once, closing at any time, forks.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

#include "affinity.h"
#include "executor.h"
#include "random_program.h"

// Whether the calling thread gets no memory.
thread_local bool without_memory = false;

void* operator new(std::size_t bytes) {
  void* const memory = without_memory ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace tvm_ios;
using namespace tvm_ios_tests;

#define EXPECT(condition)                                                          \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (0)

struct Live {
  RandomProgram program;
  std::vector<ffi::Tensor> buffers;
  Executor::Pointer executor;

  // With `open` the tiles of launches are references: place k of a partition is value k.
  explicit Live(RandomProgram made, Random& random, bool open = false) : program(std::move(made)) {
    std::vector<std::string> units;
    for (std::size_t i = 0; i < program.operations.size(); ++i) {
      units.push_back("operation " + std::to_string(i));
    }
    for (std::size_t i = 0; i < program.buffers; ++i) buffers.push_back(Zeros());
    ffi::Array<ffi::Array<std::int64_t>> lanes;
    for (std::vector<std::int64_t> lane : program.lanes) {
      for (std::size_t at = 0; open && at < lane.size();) {
        if (lane[at] == 1) {
          lane[at + 2] = ~lane[at + 2];
          lane[at + 3] = ~lane[at + 3];
        }
        at += lane[at] == 0 ? 3 : 6 + lane[at + 5];
      }
      lanes.push_back(ffi::Array<std::int64_t>(lane.begin(), lane.end()));
    }
    ExecutorOptions options;
    // Sleeping at once, sleeping soon, and hardly ever.
    options.spin = std::chrono::microseconds(std::array<int, 3>{0, 20, 20000}[random() % 3]);
    options.pin = random() % 2 == 0;
    // Standing in at once, soon, and never.
    options.patience = std::chrono::microseconds(std::array<int, 3>{0, 5, -1}[random() % 3]);
    // In pieces whatever they take, or hardly ever.
    options.piece = std::chrono::nanoseconds(std::array<int, 2>{1, 15000}[random() % 2]);
    executor = Executor::Make(
        std::make_unique<Plan>(ffi::Array<ffi::Function>{MixKernel(), FailingKernel()},
                               std::vector<std::string>{"mix", "fail"}, units,
                               ffi::Array<ffi::Tensor>(buffers.begin(), buffers.end()), lanes,
                               open ? kTiles + 1 : 0),
        options);
  }

  // Runs and compares with one thread, bit for bit.
  void Check(int runs) {
    std::vector<Content> expected(program.buffers);
    for (std::size_t i = 0; i < program.buffers; ++i) expected[i] = Of(buffers[i]);
    for (int run = 0; run < runs; ++run) {
      if (run % 3 == 1) {
        const auto spans = executor->Profile();
        EXPECT(spans.size() == program.lanes.size());
        for (const auto& lane : spans) {
          for (std::size_t i = 0; i < lane.size(); ++i) {
            EXPECT(lane[i].begin <= lane[i].end);
            EXPECT(i == 0 || lane[i - 1].end <= lane[i].begin);
            EXPECT(lane[i].runner >= 0 && lane[i].runner < static_cast<int>(spans.size()));
          }
        }
      } else if (run % 3 == 2) {
        EXPECT(executor->Benchmark(1, 1).size() == 1);
      } else {
        executor->Run();
      }
      program.Reference(expected);
      for (std::size_t i = 0; i < program.buffers; ++i) EXPECT(Of(buffers[i]) == expected[i]);
    }
  }
};

void RandomPrograms(int count) {
  Random random(1);
  for (int i = 0; i < count; ++i) Live(MakeProgram(random), random).Check(9);
}

// Tiles that change between runs, some lanes without any: late threads of earlier runs do no harm.
void OpenTiles(int count) {
  Random random(6);
  for (int i = 0; i < count; ++i) {
    Live live(MakeProgram(random), random, true);
    for (int shape = 0; shape < 6; ++shape) {
      std::vector<std::int64_t> places(kTiles + 1);
      for (std::int64_t& place : places) place = Below(random, kTiles + 1);
      std::sort(places.begin(), places.end());
      places.front() = 0;
      places.back() = kTiles;
      live.executor->Bind(places);
      live.Check(3);
    }
  }
}

// A failure cancels the other lanes, names its unit, and the next run is whole again.
void Failures(int count) {
  Random random(2);
  for (int i = 0; i < count; ++i) {
    Live live(MakeProgram(random, true), random);
    const std::string unit = std::to_string(live.program.operations.size() / 2);
    for (int run = 0; run < 3; ++run) {
      std::string said;
      try {
        live.executor->Run();
      } catch (const ffi::Error& error) {
        EXPECT(error.kind() == "KernelError");
        said = error.message();
      }
      EXPECT(said.find("unit 'operation " + unit + "' failed in kernel 'fail' on lane ") == 0);
      EXPECT(said.find("no luck") != std::string::npos);
    }
  }
}

// More lanes than CPUs, each executor with a caller of its own.
void ManyAtOnce(int count) {
  std::vector<std::thread> callers;
  for (int number = 0; number < count; ++number) {
    callers.emplace_back([number] {
      Random random(100 + number);
      for (int i = 0; i < 4; ++i) Live(MakeProgram(random), random).Check(5);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// Two callers of one executor: each run is whole or refused.
void TwoCallers(int count) {
  Random random(3);
  Live live(MakeProgram(random), random);
  std::atomic<int> done{0};
  const auto call = [&] {
    for (int i = 0; i < count; ++i) {
      try {
        live.executor->Run();
        ++done;
      } catch (const ffi::Error& error) {
        EXPECT(error.kind() == "BusyError");
      }
    }
  };
  std::thread other(call);
  call();
  other.join();
  std::vector<Content> expected(live.program.buffers);
  for (int run = 0; run < done; ++run) live.program.Reference(expected);
  for (std::size_t i = 0; i < live.program.buffers; ++i) {
    EXPECT(Of(live.buffers[i]) == expected[i]);
  }
}

// Closed from elsewhere while idle, in a run, twice; every run before is whole.
void Closing(int count) {
  Random random(4);
  for (int i = 0; i < count; ++i) {
    Live live(MakeProgram(random), random);
    if (i % 4 == 0) {
      // Never run.
      live.executor->Close();
      continue;
    }
    const auto pause = std::chrono::microseconds(random() % 300);
    std::thread closer([&] {
      std::this_thread::sleep_for(pause);
      live.executor->Close();
      live.executor->Close();
    });
    int runs = 0;
    bool closed = false;
    while (!closed) {
      try {
        live.executor->Run();
        ++runs;
      } catch (const ffi::Error& error) {
        EXPECT(error.kind() == "BusyError");
        closed = error.message().find("closed") != std::string::npos;
      }
    }
    closer.join();
    std::vector<Content> expected(live.program.buffers);
    for (int run = 0; run < runs; ++run) live.program.Reference(expected);
    for (std::size_t k = 0; k < live.program.buffers; ++k) {
      EXPECT(Of(live.buffers[k]) == expected[k]);
    }
  }
}

// A thread that gets SIGUSR1 stands still until it is let go, as one that has no CPU.
std::atomic<int> held{0};
std::atomic<bool> let_go{false};

void StandStill(int) {
  ++held;
  const timespec moment{0, 100000};
  while (!let_go) nanosleep(&moment, nullptr);
  --held;
}

// Who ran launches.
struct Noted {
  std::atomic<int> runs{0};
  std::mutex mutex;
  std::vector<pid_t> runners;
};

// Lanes whose threads stand still are not needed: the caller runs their launches, in order, once.
void HeldUp(std::size_t lanes, int legs) {
  Noted noted;
  const ffi::Function step = ffi::Function::FromPacked([&](ffi::PackedArgs args, ffi::Any*) {
    Content& content = Of(args[0].cast<ffi::Tensor>());
    // Not commutative: any other order gives another number.
    content[0] = (content[0] * 31 + args[1].cast<std::int64_t>()) % kModulus;
    ++noted.runs;
    const std::lock_guard<std::mutex> lock(noted.mutex);
    noted.runners.push_back(static_cast<pid_t>(syscall(SYS_gettid)));
  });
  // Each leg waits for the one before, on the lane before.
  ffi::Array<ffi::Array<std::int64_t>> code;
  std::vector<std::vector<std::int64_t>> plain(lanes);
  std::int64_t expected = 0;
  const auto repeat = [&] {
    for (int leg = 0; leg < legs; ++leg) expected = (expected * 31 + leg) % kModulus;
  };
  for (int leg = 0; leg < legs; ++leg) {
    std::vector<std::int64_t>& lane = plain[leg % lanes];
    const std::int64_t before = (leg + lanes - 1) % lanes;
    if (leg > 0) lane.insert(lane.end(), {0, before, (leg - 1) / static_cast<int>(lanes) + 1});
    lane.insert(lane.end(), {1, 0, leg, leg + 1, 0, 1, 0});
  }
  for (const auto& lane : plain) code.push_back(ffi::Array<std::int64_t>(lane.begin(), lane.end()));
  const ffi::Tensor buffer = Zeros();
  ExecutorOptions options;
  options.spin = std::chrono::microseconds(50);
  const Executor::Pointer executor = Executor::Make(
      std::make_unique<Plan>(ffi::Array<ffi::Function>{step}, std::vector<std::string>{"step"},
                             std::vector<std::string>{"unit"}, ffi::Array<ffi::Tensor>{buffer},
                             code),
      options);
  executor->Run();
  repeat();
  EXPECT(Of(buffer)[0] == expected);

  struct sigaction action {};
  action.sa_handler = StandStill;
  sigaction(SIGUSR1, &action, nullptr);
  let_go = false;
  int others = 0;
  for (std::size_t lane = 1; lane < lanes; ++lane) {
    pid_t thread = 0;
    while ((thread = executor->thread(lane)) == 0) std::this_thread::yield();
    ++others;
    EXPECT(syscall(SYS_tgkill, getpid(), thread, SIGUSR1) == 0);
  }
  while (held != others) std::this_thread::yield();
  noted.runs = 0;
  noted.runners.clear();
  const auto spans = [&] {
    executor->Run();
    repeat();
    auto profiled = executor->Profile();
    repeat();
    return profiled;
  }();
  EXPECT(Of(buffer)[0] == expected);
  EXPECT(noted.runs == 2 * legs);
  for (pid_t runner : noted.runners) EXPECT(runner == static_cast<pid_t>(syscall(SYS_gettid)));
  for (const auto& lane : spans) {
    for (const Span& span : lane) EXPECT(span.runner == 0 && span.begin <= span.end);
  }
  let_go = true;
  while (held != 0) std::this_thread::yield();
  // Whoever comes back finds all done, and takes part again.
  for (int run = 0; run < 5; ++run) {
    executor->Run();
    repeat();
    EXPECT(Of(buffer)[0] == expected);
  }
}

// Threads that move another one at once leave it where it may run, and so does one that binds itself.
void Moved(int count) {
  const std::vector<int> allowed = AllowedCpus();
  std::atomic<pid_t> moved{0};
  std::atomic<bool> done{false};
  bool kept = true;
  std::thread sleeper([&] {
    moved = static_cast<pid_t>(syscall(SYS_gettid));
    while (!done) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      const PinnedHere pinned(allowed[0]);
    }
    kept = AllowedCpus() == allowed;
  });
  while (moved == 0) std::this_thread::yield();
  std::vector<std::thread> movers;
  for (int number = 0; number < 4; ++number) {
    movers.emplace_back([&, number] {
      for (int i = 0; i < count; ++i) number % 2 ? MoveHere(moved) : MoveAway(moved);
    });
  }
  for (std::thread& mover : movers) mover.join();
  done = true;
  sleeper.join();
  EXPECT(kept);
}

// Where there is no memory to bind a thread it runs all the same, and the next run is not refused.
void WithoutMemory() {
  const ffi::Tensor buffer = Zeros();
  ExecutorOptions options;
  options.pin = true;
  const ffi::Function nothing = ffi::Function::FromPacked([](ffi::PackedArgs, ffi::Any*) {});
  ffi::Array<ffi::Array<std::int64_t>> lanes;
  for (int lane = 0; lane < 2; ++lane) {
    lanes.push_back(ffi::Array<std::int64_t>{1, 0, lane, lane + 1, 0, 1, 0});
  }
  const Executor::Pointer executor = Executor::Make(
      std::make_unique<Plan>(ffi::Array<ffi::Function>{nothing},
                             std::vector<std::string>{"nothing"}, std::vector<std::string>{"unit"},
                             ffi::Array<ffi::Tensor>{buffer}, lanes),
      options);
  for (int run = 0; run < 2; ++run) {
    without_memory = true;
    executor->Run();
    without_memory = false;
    executor->Run();
  }
}

void Forked() {
  Random random(5);
  Live live(MakeProgram(random), random);
  live.Check(2);
  const pid_t child = fork();
  if (child == 0) {
    try {
      live.executor->Run();
    } catch (const ffi::Error& error) {
      live.executor.reset();
      _exit(error.kind() == "ForkError" ? 7 : 8);
    }
    _exit(9);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  live.Check(2);
}

}  // namespace

int main(int argc, char** argv) {
  const int scale = argc > 1 ? std::atoi(argv[1]) : 1;
  RandomPrograms(60 * scale);
  OpenTiles(20 * scale);
  Failures(20 * scale);
  ManyAtOnce(6);
  TwoCallers(50 * scale);
  Closing(40 * scale);
  Moved(2000 * scale);
  WithoutMemory();
#ifndef __SANITIZE_THREAD__
  // The sanitizer puts signals off until a thread calls what it knows.
  for (std::size_t lanes : {2, 3, 9}) HeldUp(lanes, 60);
#endif
  Forked();
  std::puts("all is well");
  return 0;
}
