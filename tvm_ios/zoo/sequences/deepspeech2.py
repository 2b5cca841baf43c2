"""DeepSpeech2 (Amodei et al., 2016) with the sizes of Rammer's table 1 (Ma et al., OSDI 2020)."""

from __future__ import annotations

from typing import Any

from tvm_ios.zoo.writing.network import Feature, ImageNetwork
from tvm_ios.zoo.writing.recurrent import RecurrentNetwork

_FILTERS, _CHARACTERS = 32, 29


def build_deepspeech2(seed: int = 0) -> Any:
    """Build DeepSpeech2: a spectrogram (1, 1, 300, 171); output (75, 29), logits per step.

    It has two convolutions, which leave a fourth of the steps, seven LSTM layers of hidden size 256
    in one direction, and a dense layer.
    """
    return _build("deepspeech2", seed, (300, 171), layers=7, hidden=256)


def build_deepspeech2_small(seed: int = 0) -> Any:
    """Build one layer of hidden size 16, for tests: a spectrogram (1, 1, 16, 12)."""
    return _build("deepspeech2_small", seed, (16, 12), layers=1, hidden=16)


def _build(name: str, seed: int, extents: tuple[int, int], layers: int, hidden: int) -> Any:
    net = _Speech(name, seed, (1, *extents))
    x = net.convolved(net.input, (41, 11), (2, 2))
    x = net.convolved(x, (21, 11), (2, 1))
    features = _FILTERS * x.width
    sequence = net.steps(net.rows(x), x.height)
    for layer in range(layers):
        with net.scope(f"layer{layer}"):
            width = features if layer == 0 else hidden
            sequence = net.layer(sequence, net.cell_of_one_product(width, hidden), hidden)
    logits = net.linear("characters", net.normalised(sequence, hidden), hidden, _CHARACTERS)
    return net.finish(logits, (x.height, _CHARACTERS))


class _Speech(ImageNetwork, RecurrentNetwork):
    """A network on a spectrogram, which is an image whose rows are steps."""

    def convolved(self, x: Feature, kernel: tuple[int, int], stride: tuple[int, int]) -> Feature:
        """Append a padded convolution, ReLU6 and batch norm."""
        top, left = kernel[0] // 2, kernel[1] // 2
        y = self.conv(x, _FILTERS, kernel, stride, (top, left, top, left))
        return self.batch_norm(self.relu6(y), 1e-5)

    def rows(self, x: Feature) -> Any:
        """Return the rows of an image as a sequence (steps, 1, features)."""
        turned = self._op("Transpose", self._fresh("turned"), [x.value], {"perm": (2, 0, 3, 1)})
        return self._reshape(turned, (x.height, 1, x.width * x.channels))

    def normalised(self, states: list[Any], hidden: int) -> Any:
        """Return all states, (steps, hidden), after a batch norm."""
        joined = self._op("Concat", self._fresh("states"), states, {"axis": 0})
        column = Feature(self._reshape(joined, (len(states), hidden, 1, 1)), hidden, 1, 1)
        return self._reshape(self.batch_norm(column, 1e-5).value, (len(states), hidden))
