"""Generate CUDA C++ of kernels of several operators: persistent, or without dependences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from runtime_ext.cuda.machine_code.prelude import PRELUDE
from runtime_ext.cuda.persistent.rtask_function import BARRIER, RTaskFunction
from tvm_ios.program.persistent import PersistentProgram

#: Names of the last parameters of a persistent kernel: the steps of its vEUs (see
#: :meth:`tvm_ios.program.step_table.StepTable.words`), and the counter of each vEU's finished ones.
TABLE, STEPS = "table", "steps"

#: Defined in the source of a kernel for devices that know no scoped accesses and fences.
VOLATILE = "TVM_IOS_VOLATILE"
#: Polls of a counter, with pauses: seconds in all. A kernel that waits longer fails, not hangs.
_MOST_POLLS = 1 << 25

# Counting a step: a vEU that sees the count sees all threads' results, because the barrier of
# the block orders them before the first thread's fence. Only that thread reads or writes counts
# at device scope; a fence after the last poll, not after each, makes the multiprocessor
# invalidate its cached copies of other vEUs' results.
_BARRIERS = f"""\
#ifndef TVM_IOS_BARRIERS
#define TVM_IOS_BARRIERS
static __device__ __forceinline__ int {BARRIER}(int threads) {{
  asm volatile("bar.sync 1, %0;" :: "r"(threads) : "memory");
  return 0;
}}
#ifdef {VOLATILE}
#define TVM_IOS_ACCESS "volatile"
#define TVM_IOS_FENCE "membar.gl;"
#define TVM_IOS_PAUSE
#define TVM_IOS_FAIL asm volatile("exit;")
#else
#define TVM_IOS_ACCESS "relaxed.gpu"
#define TVM_IOS_FENCE "fence.acq_rel.gpu;"
#define TVM_IOS_PAUSE __nanosleep(20)
#define TVM_IOS_FAIL __trap()
#endif
static __device__ __forceinline__ int steps_made(const int* count) {{
  int made;
  asm volatile("ld." TVM_IOS_ACCESS ".global.s32 %0, [%1];"
               : "=r"(made) : "l"(count) : "memory");
  return made;
}}
static __device__ __forceinline__ void look_again(int polls) {{
  TVM_IOS_PAUSE;
  if (polls == {_MOST_POLLS}) TVM_IOS_FAIL;
}}
static __device__ __forceinline__ void see_results() {{
  asm volatile(TVM_IOS_FENCE ::: "memory");
}}
static __device__ __forceinline__ void count_step(int* count, int made) {{
  asm volatile(TVM_IOS_FENCE ::: "memory");
  asm volatile("st." TVM_IOS_ACCESS ".global.s32 [%0], %1;" :: "l"(count), "r"(made) : "memory");
}}
#endif
struct Address {{
  void* at;
  template <typename T> __device__ operator T*() const {{ return static_cast<T*>(at); }}
}};
"""

_PERSISTENT = """\
struct Step {{ int of, begin, end, first_wait, last_wait; }};
struct StepWait {{ int lane, steps; }};

extern "C" __global__ void __launch_bounds__({threads}, {blocks}) {entry}({parameters}) {{
  {arena}
  const int lane = blockIdx.x, thread = threadIdx.x, lanes = gridDim.x;
  const int* first_step = {table};
  const Step* all_steps = reinterpret_cast<const Step*>(first_step + lanes + 1);
  const StepWait* all_waits = reinterpret_cast<const StepWait*>(all_steps + first_step[lanes]);
  for (int place = first_step[lane], made = 0; place < first_step[lane + 1]; ++place) {{
    const Step step = all_steps[place];
    if (step.first_wait < step.last_wait) {{
      for (int i = step.first_wait + thread; i < step.last_wait; i += {threads}) {{
        const StepWait wait = all_waits[i];
        const int* count = {counts} + wait.lane;
        for (int polls = 0; steps_made(count) < wait.steps; ++polls) look_again(polls);
      }}
      see_results();
      __syncthreads();
    }}
    {registers}
    int function = 0;
    switch (step.of) {{
{operators}
    }}
    switch (function) {{
{functions}
    }}
    __syncthreads();
    if (thread == 0) count_step({counts} + lane, ++made);
  }}
}}
"""

_SIDE_BY_SIDE = """\
extern "C" __global__ void __launch_bounds__({threads}) {entry}({parameters}) {{
  {arena}
  const int block = blockIdx.x, thread = threadIdx.x;
  {registers}
  int function = 0, task = 0;
{operators}
  switch (function) {{
{functions}
  }}
}}
"""


def persistent_source(
    program: PersistentProgram,
    functions: Mapping[str, RTaskFunction],
    buffers: Sequence[int],
    entry: str,
    blocks: int,
) -> str:
    """Return the source of a kernel whose blocks are vEUs (Rammer, section 4.1.3).

    Every block executes its list of steps, which all threads read. The lists are an argument, so
    that a kernel serves all placements of its operators. Operators of equal code share it, since an
    operator only sets its buffers and its function. ``buffers`` are the program's buffers that are
    parameters; after them come the table and the step counters. ``blocks`` is the number of blocks
    that a multiprocessor has to hold, which limits the registers.
    """
    calls = _Calls(program, functions, buffers)
    bodies = (
        f"for (int task = step.begin; task < step.end; ++task) {{ {calls.call(f)}{again} }}"
        for f in calls.functions
        # A thread may not overwrite shared memory that slower ones still read in the rTask before.
        for again in [f" {BARRIER}({f.threads});" if f.shared else ""]
    )
    return calls.text(
        _PERSISTENT,
        bodies,
        (f"case {i}: {calls.choose(i)} break;" for i in range(len(program.operators))),
        entry=entry,
        blocks=blocks,
        parameters=[*calls.parameters, f"const int* __restrict__ {TABLE}", f"int* {STEPS}"],
        table=TABLE,
        counts=STEPS,
    )


def side_by_side_source(
    program: PersistentProgram,
    functions: Mapping[str, RTaskFunction],
    buffers: Sequence[int],
    entry: str,
) -> str:
    """Return the source of a kernel with a block for each rTask of independent operators."""
    calls = _Calls(program, functions, buffers)
    tasks = [functions[program.kernels[o.kernel]].tasks for o in program.operators]
    ends = list(accumulate(tasks))
    lines = (
        f"{'else ' if i else ''}if (block < {end}) {{ task = block - {end - count}; "
        f"{calls.choose(i)} }}"
        for i, (end, count) in enumerate(zip(ends, tasks, strict=True))
    )
    return calls.text(
        _SIDE_BY_SIDE,
        map(calls.call, calls.functions),
        lines,
        entry=entry,
        parameters=calls.parameters,
    )


class _Calls:
    """The source parts that both forms of kernels have."""

    def __init__(
        self,
        program: PersistentProgram,
        functions: Mapping[str, RTaskFunction],
        buffers: Sequence[int],
    ) -> None:
        self._program = program
        self._place = {buffer: place for place, buffer in enumerate(buffers)}
        self.functions = [functions[symbol] for symbol in program.kernels]
        self.parameters = [f"void* b{place}" for place in range(len(buffers))]

    def choose(self, operator: int) -> str:
        """Return code that sets the arguments and the function of an operator."""
        launched = self._program.operators[operator]
        function = self.functions[launched.kernel]
        arguments = (launched.buffers[argument] for argument in function.arguments)
        assignments = (f"a{i} = b{self._place[buffer]};" for i, buffer in enumerate(arguments))
        return " ".join((*assignments, f"function = {launched.kernel};"))

    def call(self, function: RTaskFunction) -> str:
        """Return a call of a function for one rTask."""
        arguments = [f"Address{{a{i}}}" for i in range(len(function.arguments))]
        arguments += [f"Address{{arena + {offset}}}" for offset in function.shared]
        return f"{function.name}({', '.join((*arguments, 'task', 'thread'))});"

    def text(
        self,
        template: str,
        bodies: Iterable[str],
        operators: Iterable[str],
        *,
        parameters: Sequence[str],
        **values: object,
    ) -> str:
        """Return the whole source; a body runs on the threads of its function, others skip it."""
        cases = [
            f"case {i}: if (thread < {function.threads}) {body} break;"
            for i, (function, body) in enumerate(zip(self.functions, bodies, strict=True))
        ]
        width = max((len(function.arguments) for function in self.functions), default=0)
        shared = any(function.shared for function in self.functions)
        kernel = template.format(
            threads=max(function.threads for function in self.functions),
            parameters=", ".join(parameters),
            arena="extern __shared__ __align__(128) unsigned char arena[];" if shared else "",
            registers=" ".join(f"void* a{i} = nullptr;" for i in range(width)),
            operators="\n".join(f"      {line}" for line in operators),
            functions="\n".join(f"      {case}" for case in cases),
            **values,
        )
        called = dict.fromkeys(function.called for function in self.functions)
        sources = (*called, *(function.source for function in self.functions))
        return "\n".join((PRELUDE + _BARRIERS, *sources, kernel))
