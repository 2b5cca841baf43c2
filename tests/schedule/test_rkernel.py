from __future__ import annotations

from tvm_ios.schedule.rkernel import RKernel, fastest, most_efficient


def kernel(name: str, seconds: float, work: float) -> RKernel:
    return RKernel(name, (2, 1), (work / 4, work / 2), seconds)


def test_the_usual_kernel_is_left_only_for_more_than_noise() -> None:
    usual = kernel("default", 1.0, 4.0)
    assert fastest((usual, kernel("coarse", 0.99, 3.0))) == usual
    assert most_efficient((usual, kernel("coarse", 0.5, 3.95))) == usual
    coarse, fine = kernel("coarse", 1.2, 3.0), kernel("fine", 0.9, 4.5)
    assert fastest((usual, coarse, fine)) == fine
    assert most_efficient((usual, coarse, fine)) == coarse
