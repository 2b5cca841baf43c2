"""The flags of persistent kernels under PTX's memory model, as the emitter writes them.

Small programs are emitted and compiled to PTX, whose threads the checker runs. Each element of a
buffer is written by one thread of an operator, with a number that tells the operator, and read by
threads of other blocks. In every execution that the model allows every read has to see the last
operator that wrote before its own, and no two accesses may race.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from runtime_ext.cuda.machine_code.nvrtc import Cubin, compile_cubin
from runtime_ext.cuda.machine_code.nvrtc_library import nvrtc_libraries
from runtime_ext.cuda.persistent.fused_kernel import FusedKernel, fuse
from runtime_ext.cuda.persistent.rtask_function import BARRIER, RTaskFunction
from tests.memory_model.executions import executions
from tests.memory_model.program import Operation, Place, Store, Thread
from tests.memory_model.ptx import Ptx
from tests.memory_model.ptx_threads import Argument, Kernel
from tvm_ios.devices.device import load_device
from tvm_ios.program.persistent import PersistentProgram, ROperator, RTasks
from tvm_ios.program.program import Buffer, BufferType, KernelUse, Role

pytestmark = pytest.mark.skipif(not nvrtc_libraries(), reason="needs NVRTC")

#: Threads of a block.
THREADS = 2
# Its stores depend on no load.
_RTASK = """
static __device__ __forceinline__ void rtask_{name}(
    int* a, int* b, int* c{held}, int task, int thread) {{
  const int n = task * {threads} + thread;
  asm volatile("" :: "r"(a[{length} - 1 - n]));
  asm volatile("" :: "r"(b[{length} - 1 - n]));
  {exchange}
  c[n] = {number};
}}
"""
#: Reads what the other thread wrote, in shared memory.
_EXCHANGE = f"""\
held[thread] = n;
  {BARRIER}({THREADS});
  asm volatile("" :: "r"(held[{THREADS} - 1 - thread]));
"""


@dataclass(frozen=True)
class Emitted:
    """A program that was emitted, and what it must compute."""

    program: PersistentProgram
    fused: FusedKernel

    @property
    def kernel(self) -> Kernel:
        return Kernel.parse(self.fused.cubin.decode(), self.fused.kernel.entry)

    @property
    def arguments(self) -> list[Argument]:
        """The kernel's arguments: buffers, the table and the counters."""
        assert self.fused.table is not None
        names = [self.program.buffers[number].name for number in self.fused.buffers]
        return [
            *map(Argument, names),
            Argument("table", self.fused.table.words),
            Argument("steps", used=True),
        ]


def program(
    lanes: Sequence[Sequence[tuple[int, int, int]]],
    operators: Sequence[tuple[tuple[int, int, int], tuple[int, ...]]],
    tasks: int = 1,
) -> PersistentProgram:
    """Return the program of some steps and of operators: two buffers read, one written; waits."""
    buffers = 1 + max(b for of_one, _ in operators for b in of_one)
    length = BufferType((tasks * THREADS,), "int32")
    return PersistentProgram(
        tuple(tuple(RTasks(*step) for step in lane) for lane in lanes),
        tuple(ROperator(n, b, n, waits) for n, (b, waits) in enumerate(operators)),
        tuple(f"o{n}" for n in range(len(operators))),
        tuple(Buffer(f"b{n}", length, Role.OUTPUT) for n in range(buffers)),
        tuple(f"u{n}" for n in range(len(operators))),
        tuple(KernelUse(tasks, 3, (2,)) for _ in operators),
    )


def emit(program: PersistentProgram, change: Callable[[str], str] = lambda text: text) -> Emitted:
    """Emit a program as the product does; ``change`` damages its source.

    Programs of several rTasks use shared memory.
    """
    tasks = program.uses[0].tiles
    shared = tasks > 1
    functions = {
        symbol: RTaskFunction(
            "",
            f"rtask_{symbol}",
            _RTASK.format(
                name=symbol,
                threads=THREADS,
                length=tasks * THREADS,
                held=", int* held" if shared else "",
                exchange=_EXCHANGE if shared else "",
                number=number + 1,
            ),
            tasks,
            THREADS,
            (0, 1, 2),
            (0,) if shared else (),
            THREADS * 4 if shared else 0,
        )
        for number, symbol in enumerate(program.kernels)
    }

    def compiled(source: str, arch: str, _: str) -> Cubin:
        return compile_cubin(change(source), arch.replace("sm_", "compute_"))

    return Emitted(program, fuse(program, functions, load_device("h200"), compiled, 1))


#: One vEU hands to another.
HANDED = program([[(0, 0, 1)], [(1, 0, 1)]], [((0, 0, 1), ()), ((1, 1, 2), (0,))])
#: The third knows of the first operator by way of the second only.
PASSED_ON = program(
    [[(0, 0, 1)], [(1, 0, 1)], [(2, 0, 1)]],
    [((0, 0, 1), ()), ((1, 1, 2), (0,)), ((1, 2, 3), (1,))],
)
#: A vEU overwrites what another has read.
REUSED = program(
    [[(0, 0, 1), (2, 0, 1)], [(1, 0, 1)]],
    [((0, 0, 1), ()), ((1, 1, 2), (0,)), ((2, 2, 1), (1,))],
)
#: Both vEUs do a half of each operator, and read the other's.
EXCHANGED = program(
    [[(0, 0, 1), (1, 0, 1)], [(0, 1, 2), (1, 1, 2)]],
    [((0, 0, 1), ()), ((1, 1, 2), (0,))],
    tasks=2,
)
#: A step of two rTasks, which use the same shared memory, and a vEU that waits for two others.
GATHERED = program(
    [[(0, 0, 2)], [(1, 0, 2)], [(2, 0, 1)]],
    [((0, 0, 1), ()), ((0, 0, 2), ()), ((1, 2, 3), (0, 1))],
    tasks=2,
)
PROGRAMS = {
    "handed": HANDED,
    "passed on": PASSED_ON,
    "reused": REUSED,
    "exchanged": EXCHANGED,
    "gathered": GATHERED,
}


def runs(
    emitted: Emitted, times: int = 1, *, cleared: bool = True, ordered: bool = True
) -> list[Thread]:
    """Return the threads of some launches, one after another.

    Before each the counters are cleared, as the executors do it, and the launch waits for that; not
    if it is told otherwise.
    """
    launchable = emitted.fused.launchable
    (blocks, *_), (threads, *_) = launchable.grid, launchable.block
    assert [emitted.arguments[number].name for number in launchable.cleared] == ["steps"]

    def clear() -> Generator[Operation, Any, None]:
        for lane in range(blocks if cleared else 0):
            yield Store(("steps", lane), 0)

    made: list[Thread] = []
    for number in range(times):
        before, block = tuple(range(len(made))), number * (blocks + 1)
        made.append(Thread(clear, block, 0, before))
        after = (*before, len(before)) if ordered else before
        made += emitted.kernel.threads(emitted.arguments, blocks, threads, block + 1, after)
    return made


def reads(program: PersistentProgram, times: int) -> Iterator[list[int]]:
    """Yield what each thread of some launches has to read of buffers and of shared memory."""
    held = dict.fromkeys(range(len(program.buffers)), 0)
    shared = program.uses[0].tiles > 1
    for _ in range(times):
        seen: list[tuple[int, int]] = []
        for number, operator in enumerate(program.operators):
            a, b, c = operator.buffers
            seen.append((held[a], held[b]))
            held[c] = number + 1
        yield []  # clears counters
        for lane in program.lanes:
            for thread in range(THREADS):
                yield [
                    value
                    for step in lane
                    for task in range(step.begin, step.end)
                    for value in (
                        *seen[step.operator],
                        *([task * THREADS + THREADS - 1 - thread] if shared else []),
                    )
                ]


def faults(emitted: Emitted, times: int = 1, counters: int = 0, **options: bool) -> Iterator[str]:
    """Yield what is wrong in executions: a race, or an old value that was read.

    ``counters`` is in the counters' memory at first.
    """
    expected = [*reads(emitted.program, times)]
    initial: dict[Place, int] = {
        ("steps", lane): counters for lane in range(len(emitted.program.lanes))
    }
    ended = False
    for execution in executions(Ptx, runs(emitted, times, **options), initial):
        ended = True
        if execution.race is not None:
            yield execution.race
        for thread, (seen, due) in enumerate(zip(execution.seen, expected, strict=True)):
            data = [value for place, value in seen if place[0] != "steps"]
            if data != due:
                yield f"thread {thread} reads {data} instead of {due}"
    if not ended:
        yield "it never ends"


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_read_sees_what_was_published(name: str) -> None:
    assert [*faults(emit(PROGRAMS[name]))] == []


@pytest.mark.parametrize("name", ["handed", "reused"])
def test_a_second_run_does_not_see_the_flags_of_the_first(name: str) -> None:
    assert [*faults(emit(PROGRAMS[name]), times=2)] == []


def test_flags_are_cleared_before_the_launch() -> None:
    """Other buffers may use the counters' memory between launches."""
    emitted, left = emit(HANDED), 9
    assert [*faults(emitted, counters=left)] == []
    assert next(faults(emitted, counters=left, ordered=False), None)
    assert next(faults(emitted, counters=left, cleared=False), None)
    assert next(faults(emitted, times=2, cleared=False), None)


#: What is replaced in the source, by what.
Damage = Sequence[tuple[str, str]]
_FENCE = 'asm volatile("fence.acq_rel.gpu;" ::: "memory");'
_PUBLISH = f"int made) {{\n  {_FENCE}"
_SEE = f"see_results() {{\n  {_FENCE}"
_COUNT = "    __syncthreads();\n    if (thread == 0) count_step(steps + lane, ++made);\n"
_STEP = "    const Step step = all_steps[place];\n"
_POLL = "      for (int i = step.first_wait + thread;"
_SEEN = "      see_results();\n      __syncthreads();\n"
DAMAGED: dict[str, Damage] = {
    "no fence before the flag": [(_PUBLISH, "int made) {")],
    "no fence after the polls": [(_SEE, "see_results() {")],
    "a fence of the block before the flag": [(_PUBLISH, _PUBLISH.replace("gpu", "cta"))],
    "a fence of the block after the polls": [(_SEE, _SEE.replace("gpu", "cta"))],
    "a weak flag": [("st.relaxed.gpu.global", "st.global")],
    "a weak poll": [("ld.relaxed.gpu.global", "ld.global")],
    "a flag of the block": [("st.relaxed.gpu", "st.relaxed.cta")],
    "a poll of the block": [("ld.relaxed.gpu", "ld.relaxed.cta")],
    "the flag before the data": [
        (_COUNT, ""),
        ("    void* a0", _COUNT + "    void* a0"),
    ],
    "no barrier before the flag": [(_COUNT, _COUNT.replace("__syncthreads();", ""))],
    "no barrier after the polls": [(_SEEN, "      see_results();\n")],
    "the fence before the polls": [
        (_SEEN, "      __syncthreads();\n"),
        (_POLL, "      see_results();\n" + _POLL),
    ],
    "no wait": [("step.first_wait < step.last_wait)", "false)")],
    "one step less to wait for": [("< wait.steps;", "< wait.steps - 1;")],
    "no barrier between rTasks": [(f", thread); {BARRIER}({THREADS});", ", thread);")],
    "no barrier inside an rTask": [(f"  {BARRIER}({THREADS});\n", "")],
}


def damaged(damage: Damage) -> Callable[[str], str]:
    """Return a function that damages a source, if it has what is damaged."""

    def change(source: str) -> str:
        if all(old in source for old, _ in damage):
            for old, new in damage:
                source = source.replace(old, new)
        return source

    return change


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_found(name: str) -> None:
    found = (
        fault
        for program in PROGRAMS.values()
        for fault in faults(emit(program, damaged(DAMAGED[name])))
    )
    assert next(found, None)


def test_other_right_ways_to_publish_are_accepted() -> None:
    ways: list[Damage] = [
        [(_PUBLISH, "int made) {"), ("st.relaxed.gpu", "st.release.gpu")],
        [(_SEE, "see_results() {"), ("ld.relaxed.gpu", "ld.acquire.gpu")],
        [("fence.acq_rel.gpu", "fence.sc.gpu")],
        # For devices that know no scopes.
        [
            ("fence.acq_rel.gpu", "membar.gl"),
            ("st.relaxed.gpu.global", "st.volatile.global"),
            ("ld.relaxed.gpu.global", "ld.volatile.global"),
        ],
    ]
    for damage in ways:
        for program in (HANDED, PASSED_ON):
            assert [*faults(emit(program, damaged(damage)))] == []


def test_a_cached_load_of_what_other_blocks_write_is_refused() -> None:
    text = emit(HANDED).fused.cubin.decode().replace("ld.global.u32", "ld.global.nc.u32")
    emitted = emit(HANDED)
    kernel = Kernel.parse(text, emitted.fused.kernel.entry)
    with pytest.raises(ValueError, match="cache of constants"):
        next(executions(Ptx, kernel.threads(emitted.arguments, 2, THREADS)))
