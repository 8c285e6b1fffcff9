"""Small networks side by side, their gradients written out, and RMSprop on one flat vector.

At these sizes automatic differentiation costs several times the arithmetic, so every gradient is
written by hand; the tests hold each against autograd.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from numba import njit

SLOPE = 0.01
"""Slope of the leaky ReLU for negative arguments."""

GAIN = math.sqrt(2 / (1 + SLOPE**2))
"""Gain that belongs to this leaky ReLU in Xavier's initialisation."""


class Parameters:
    """Named arrays that lie one after the other in one vector, with their gradients alike.

    Attributes
    ----------
    flat, flat_gradient : tensor (number of parameters,)
    values, gradients : dict of str to tensor
        Views of the two vectors in the shapes given, zero at first.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype):
        self.flat = torch.zeros(sum(map(math.prod, shapes.values())), dtype=dtype)
        self.flat_gradient = torch.zeros_like(self.flat)
        self.values = self._views(self.flat, shapes)
        self.gradients = self._views(self.flat_gradient, shapes)

    @staticmethod
    def _views(flat, shapes):
        views, begin = {}, 0
        for name, shape in shapes.items():
            views[name] = flat[begin : begin + math.prod(shape)].view(shape)
            begin += math.prod(shape)
        return views


class RMSprop:
    """``v = 0.99 v + 0.01 g^2``, then ``theta -= rate * g / (sqrt(v) + 1e-8)``, in place."""

    def __init__(self, parameters: Parameters, rate: float):
        self._arrays = parameters.flat.numpy(), parameters.flat_gradient.numpy()
        self._squares = np.zeros_like(self._arrays[0])
        self._rate = self._squares.dtype.type(rate)

    def step(self) -> None:
        """Move the parameters along their gradients."""
        _rmsprop(*self._arrays, self._squares, self._rate)

    def restart(self) -> None:
        """Forget all past gradients."""
        self._squares[:] = 0


@njit(cache=True, error_model="numpy")
def _rmsprop(theta, gradient, squares, rate):
    keep, take = theta.dtype.type(0.99), theta.dtype.type(0.01)
    epsilon = theta.dtype.type(1e-8)
    for k in range(len(theta)):
        g = gradient[k]
        v = keep * squares[k] + take * g * g
        squares[k] = v
        theta[k] -= rate * g / (np.sqrt(v) + epsilon)


class Networks:
    """T perceptrons with the same shape: inputs -> hidden -> ... -> hidden -> outputs.

    Leaky ReLU after every layer but the last. A bias is the weight of a further input that is
    always one, so weights of layer l have shape (T, outputs, inputs + 1), and the arrays that
    enter a layer have a last row of ones.

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

    def bind(self, parameters: Parameters) -> None:
        """Use, and write the gradients of, the weights in ``parameters``."""
        names = list(self.shapes())
        self.weights = [parameters.values[name] for name in names]
        self.gradients = [parameters.gradients[name] for name in names]

    def initialise(self, generator: torch.Generator) -> None:
        """Xavier-uniform weights for each network's own matrices, biases zero."""
        for weights in self.weights:
            xavier_uniform(weights[:, :, :-1], generator)

    def workspace(self, B: int) -> "Workspace":
        """Arrays for batches of B rows."""
        return Workspace(self, B)

    def forward(self, w: "Workspace") -> torch.Tensor:
        """Outputs (T, outputs, B) for the inputs ``w.entering[0]``."""
        last = len(self.weights) - 1
        for level in range(last):
            torch.bmm(self.weights[level], w.entering[level], out=w.before[level])
            torch._C._nn.leaky_relu(w.before[level], SLOPE, out=w.after[level])
        return torch.bmm(self.weights[last], w.entering[last], out=w.outputs)

    def backward(self, w: "Workspace", delta: torch.Tensor) -> torch.Tensor:
        """Set the weights' gradients; return that of the inputs, (T, inputs + 1, B).

        Parameters
        ----------
        w : Workspace
            As :meth:`forward` left it.
        delta : tensor (T, outputs, B)
            Gradient of the outputs.
        """
        for level in range(len(self.weights) - 1, -1, -1):
            torch.bmm(delta, w.entering[level].transpose(1, 2), out=self.gradients[level])
            upstream = torch.bmm(self.weights[level].transpose(1, 2), delta, out=w.upstream[level])
            if level:
                delta = torch.ops.aten.leaky_relu_backward(
                    upstream[:, :-1], w.before[level - 1], SLOPE, False
                )
        return upstream


class Workspace:
    """What passes through :class:`Networks` for one size of batch.

    Attributes
    ----------
    entering : list of tensor (T, inputs of the layer + 1, B)
        The last row is one. ``entering[0]`` is for the caller to fill.
    before, after : list of tensor (T, hidden, B)
        Hidden units before and after the leaky ReLU; ``after`` lies inside ``entering``.
    """

    def __init__(self, networks: Networks, B: int):
        T, sizes, dtype = networks.count, networks.sizes, networks.weights[0].dtype
        self.entering = [torch.ones(T, size + 1, B, dtype=dtype) for size in sizes[:-1]]
        self.before = [torch.empty(T, size, B, dtype=dtype) for size in sizes[1:-1]]
        self.after = [array[:, :-1] for array in self.entering[1:]]
        self.outputs = torch.empty(T, sizes[-1], B, dtype=dtype)
        self.upstream = [torch.empty_like(array) for array in self.entering]


def xavier_uniform(weights: torch.Tensor, generator: torch.Generator) -> None:
    """Fill (..., out, in) uniformly within +-GAIN sqrt(6 / (in + out))."""
    bound = GAIN * math.sqrt(6 / sum(weights.shape[-2:]))
    weights.uniform_(-bound, bound, generator=generator)
