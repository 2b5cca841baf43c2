// Kernels of tests/random_units.py for the stand-in: vectors of 12 integers.
//
// A grid says what a kernel is: x is the unit's number and one, y its data inputs, z its outputs.
#include <stdint.h>
#include <string.h>

enum { LENGTH = 12, MODULUS = 1000003 };

static void mix(int unit, int inputs, int64_t** values, const int64_t* constant, int64_t* result) {
  int64_t total[LENGTH];
  memcpy(total, constant, sizeof total);
  for (int place = 0; place < inputs; ++place) {
    for (int n = 0; n < LENGTH; ++n) {
      total[(n + unit + 5) % LENGTH] += (place + 2) * values[place][n];
    }
  }
  for (int n = 0; n < LENGTH; ++n) result[n] = total[n] % MODULUS;
}

static void finish(int unit, int place, const int64_t* mixed, int64_t* result) {
  for (int n = 0; n < LENGTH; ++n) {
    result[(n + 7) % LENGTH] = (mixed[n] * (unit + 3) + place) % MODULUS;
  }
}

static int whole(void** arguments, const unsigned* grid) {
  int64_t mixed[LENGTH];
  int64_t** buffers = (int64_t**)arguments;
  mix(grid[0] - 1, grid[1], buffers, buffers[grid[1]], mixed);
  for (unsigned place = 0; place < grid[2]; ++place) {
    finish(grid[0] - 1, place, mixed, buffers[grid[1] + 1 + place]);
  }
  return 0;
}

static int mix_only(void** arguments, const unsigned* grid) {
  int64_t** buffers = (int64_t**)arguments;
  mix(grid[0] - 1, grid[1], buffers, buffers[grid[1]], buffers[grid[1] + 1]);
  return 0;
}

static int finish_only(void** arguments, const unsigned* grid) {
  int64_t** buffers = (int64_t**)arguments;
  for (unsigned place = 0; place < grid[2]; ++place) {
    finish(grid[0] - 1, place, buffers[0], buffers[1 + place]);
  }
  return 0;
}

// The driver knows of every kernel how many parameters it has; a function has a name for each. And
// whether it waits by itself until the kernel before has ended.
#define WITH(code, count)                                          \
  const int code##_##count##_parameters = count;                   \
  const int code##_##count##_waits = 1;                            \
  int code##_##count(void** arguments, const unsigned* grid) { return code(arguments, grid); }
#define WITH_ALL(code)                                                                      \
  WITH(code, 2) WITH(code, 3) WITH(code, 4) WITH(code, 5) WITH(code, 6) WITH(code, 7)
WITH_ALL(whole)
WITH_ALL(mix_only)
WITH_ALL(finish_only)

// Copies x to y, plus one.
static int copy_plus_one(void** arguments) {
  for (int n = 0; n < LENGTH; ++n) {
    ((int64_t*)arguments[1])[n] = ((int64_t*)arguments[0])[n] + 1;
  }
  return 0;
}

const int step_parameters = 2;
int step(void** arguments, const unsigned* grid) {
  (void)grid;
  return copy_plus_one(arguments);
}

const int waiting_step_parameters = 2;
const int waiting_step_waits = 1;
int waiting_step(void** arguments, const unsigned* grid) {
  (void)grid;
  return copy_plus_one(arguments);
}

const int broken_parameters = 2;
int broken(void** arguments, const unsigned* grid) {
  (void)arguments;
  (void)grid;
  return 1;
}
