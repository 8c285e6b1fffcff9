"""Parameters side by side in one vector, the shapes of small networks, and RMSprop.

Networks are perceptrons with leaky ReLU after every layer but the last. Their gradients are written
out in :mod:`sdcd.baselines.dcdi_models.kernels`; the tests hold each against autograd.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch

from sdcd.baselines.dcdi_models import kernels

GAIN = math.sqrt(2 / (1 + kernels.SLOPE**2))
"""Gain that belongs to this leaky ReLU in Xavier's initialisation."""


class Parameters:
    """Named arrays that lie one after the other in one vector, with their gradients alike.

    Attributes
    ----------
    flat, flat_gradient : (number of parameters,)
    values, gradients : dict of str to array
        Views of the two vectors in the shapes given, zero at first.
    starts : dict of str to int
        Where each array starts in the vector.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], dtype: str | np.dtype):
        self.flat = np.zeros(sum(map(math.prod, shapes.values())), dtype)
        self.flat_gradient = np.zeros_like(self.flat)
        self.values, self.gradients, self.starts = {}, {}, {}
        begin = 0
        for name, shape in shapes.items():
            end = begin + math.prod(shape)
            self.values[name] = self.flat[begin:end].reshape(shape)
            self.gradients[name] = self.flat_gradient[begin:end].reshape(shape)
            self.starts[name] = begin
            begin = end


class RMSprop:
    """``v = 0.99 v + 0.01 g^2``, then ``theta -= rate * g / (sqrt(v) + 1e-8)``, in place.

    Attributes
    ----------
    squares : (number of parameters,)
        The averages v, zero at first.
    rate : numpy scalar
    """

    def __init__(self, parameters: Parameters, rate: float):
        self._parameters = parameters
        self.squares = np.zeros_like(parameters.flat)
        self.rate = self.squares.dtype.type(rate)

    def step(self) -> None:
        """Move the parameters along their gradients."""
        parameters = self._parameters
        kernels.rmsprop(parameters.flat, parameters.flat_gradient, self.squares, self.rate)

    def restart(self) -> None:
        """Forget all past gradients."""
        self.squares[:] = 0


class Networks:
    """T perceptrons of the same shape: inputs -> hidden -> ... -> hidden -> outputs.

    A bias is the weight of a further input that is always one, so weights of layer l have shape
    (T, outputs, inputs + 1).

    Parameters
    ----------
    count, inputs, hidden, layers, outputs : int
        T, and each network's number of inputs, hidden units per layer, hidden layers, outputs.
    """

    def __init__(self, count: int, inputs: int, hidden: int, layers: int, outputs: int):
        self.count = count
        self.sizes = [inputs, *[hidden] * layers, outputs]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights by name, for :class:`Parameters`."""
        pairs = zip(self.sizes[:-1], self.sizes[1:], strict=True)
        return {
            f"layer{level}": (self.count, fan_out, fan_in + 1)
            for level, (fan_in, fan_out) in enumerate(pairs)
        }

    def initialise(self, parameters: Parameters, generator: torch.Generator) -> None:
        """Xavier-uniform weights for each network's own matrices, biases zero."""
        for name in self.shapes():
            xavier_uniform(parameters.values[name][:, :, :-1], generator)

    @property
    def height(self) -> int:
        """Rows of a network's activations."""
        return sum(self.sizes) + len(self.sizes) - 1

    def compiled(self, parameters: Parameters) -> kernels.Networks:
        """What the kernels need to know."""
        heights = [*(size + 1 for size in self.sizes[:-1]), self.sizes[-1]]
        return kernels.Networks(
            np.array(self.sizes, np.int64),
            np.array([parameters.starts[name] for name in self.shapes()], np.int64),
            np.cumsum([0, *heights], dtype=np.int64),
        )


def xavier_uniform(weights: np.ndarray, generator: torch.Generator) -> None:
    """Fill (..., out, in) uniformly within +-GAIN sqrt(6 / (in + out))."""
    bound = GAIN * math.sqrt(6 / sum(weights.shape[-2:]))
    torch.from_numpy(weights).uniform_(-bound, bound, generator=generator)


def generator_state(seed: int, stream: int) -> np.ndarray:
    """State of ``LANES`` xoshiro128++ generators: uint32 (4, LANES), changed by every draw."""
    words = np.random.SeedSequence([seed, stream]).generate_state(4 * kernels.LANES)
    return words.astype(np.uint32).reshape(4, kernels.LANES)


def workspace(
    d: int, rows: int, units: int, delta: int, dtype: np.dtype, flow: int = 0
) -> kernels.Work:
    """Working memory of the kernels for batches of at most ``rows`` rows.

    Parameters
    ----------
    d, rows : int
    units, delta : int
        Numbers per row of the activations and of their gradients.
    flow : int
        Length of ``Work.flow``.
    """
    R = -(-rows // kernels.LANES) * kernels.LANES
    return kernels.Work(
        panel=np.zeros(d * R, dtype),
        weight=np.zeros(d * R, dtype),
        u=np.zeros(R, dtype),
        units=np.zeros(units * R, dtype),
        delta=np.zeros(delta * R, dtype),
        relaxed=np.zeros(d * R, dtype),
        flow=np.zeros(flow),
        log_density=np.zeros(R),
    )
