// Fibres that give each other their turn without system calls: swapcontext would save and restore
// the mask of signals, which takes two of them each time.
#pragma once

// Its checked longjmp takes another fibre's stack for one that is gone.
#undef _FORTIFY_SOURCE
#include <setjmp.h>
#include <stddef.h>
#include <ucontext.h>

namespace fibres {

struct Fibre {
  ucontext_t start;
  jmp_buf at;
  bool begun, idle;
};

static jmp_buf scheduler;

// Makes a fibre, or takes one that has finished: `entry` is a loop whose last call is `finish`.
static void prepare(Fibre& fibre, char* stack, size_t size, void (*entry)()) {
  if (fibre.idle) {
    fibre.idle = false;
    return;
  }
  getcontext(&fibre.start);
  fibre.start.uc_stack.ss_sp = stack;
  fibre.start.uc_stack.ss_size = size;
  fibre.start.uc_link = nullptr;
  makecontext(&fibre.start, entry, 0);
  fibre.begun = false;
}

// Runs a fibre until it pauses or finishes.
static void resume(Fibre& fibre) {
  if (_setjmp(scheduler)) return;
  if (fibre.begun) _longjmp(fibre.at, 1);
  fibre.begun = true;
  setcontext(&fibre.start);
}

static void pause(Fibre& fibre) {
  if (!_setjmp(fibre.at)) _longjmp(scheduler, 1);
}

static void finish(Fibre& fibre) {
  fibre.idle = true;
  pause(fibre);
}

}  // namespace fibres
