"""Optimizers of ``tf.contrib.opt`` that drive another optimizer, and the interface to scipy's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

__all__ = [
    "ExternalOptimizerInterface",
    "MovingAverageOptimizer",
    "ScipyOptimizerInterface",
    "VariableClippingOptimizer",
    "clip_gradients_by_global_norm",
]


def clip_gradients_by_global_norm(gradients_variables: Any, clip_norm: float = 20.0) -> list[tuple[Any, Any]]:
    """Pairs whose gradients were clipped together."""
    gradients, variables = zip(*gradients_variables)
    clipped, _ = tf.clip_by_global_norm(gradients, clip_norm)
    return list(zip(clipped, variables))


class _Wrapper(tf.train.Optimizer):
    """Another optimizer's slots and updates."""

    def __init__(self, opt: tf.train.Optimizer, use_locking: bool, name: str) -> None:
        super().__init__(use_locking, name)
        self._optimizer = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """The inner optimizer's gradients."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """The inner optimizer's slot."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """The inner optimizer's slot names."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self) -> Any:
        """The inner optimizer's variables."""
        return self._optimizer.variables()


class MovingAverageOptimizer(_Wrapper):
    """Keeps moving averages of the variables, and makes a Saver that stores them in the variables' place."""

    def __init__(
        self,
        opt: tf.train.Optimizer,
        average_decay: float = 0.9999,
        num_updates: Any = None,
        sequential_update: bool = True,
    ) -> None:
        super().__init__(opt, False, "MovingAverageOptimizer")
        self._average = tf.train.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._sequential = sequential_update
        self._averages: dict[str, Any] | None = None

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Updates, then averages (before the update's end when not sequential)."""
        pairs = list(grads_and_vars)
        update = self._optimizer.apply_gradients(pairs, global_step=global_step)
        variables = [var for grad, var in pairs if grad is not None]
        with tf.control_dependencies([update] if self._sequential else []):
            average = self._average.apply(variables)
        self._averages = {var.op.name: self._average.average(var) for var in variables}
        return tf.group(update, average, name="train_op")

    def swapping_saver(self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any) -> tf.train.Saver:
        """A Saver that stores averages under the variables' names, and the variables under the averages'.

        Raises:
            RuntimeError: no gradients were applied yet.
        """
        if self._averages is None:
            raise RuntimeError("call minimize or apply_gradients before swapping_saver")
        chosen = var_list if var_list is not None else tf.global_variables()
        by_name = dict(chosen) if isinstance(chosen, dict) else {var.op.name: var for var in chosen}
        swapped = dict(by_name)
        for variable_name, average in self._averages.items():
            if variable_name in by_name and average.op.name in by_name:
                swapped[variable_name] = average
                swapped[average.op.name] = by_name[variable_name]
        return tf.train.Saver(swapped, name=name, **kwargs)


class VariableClippingOptimizer(_Wrapper):
    """Scales slices of chosen variables back to a largest L2 norm after each update."""

    def __init__(
        self,
        opt: tf.train.Optimizer,
        vars_to_clip_dims: dict[Any, Sequence[int]],
        max_norm: float,
        use_locking: bool = False,
        colocate_clip_ops_with_vars: bool = False,
        name: str = "VariableClipping",
    ) -> None:
        super().__init__(opt, use_locking, name)
        self._dims = {var.name: list(dims) for var, dims in vars_to_clip_dims.items()}
        self._max_norm = max_norm

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Updates, then clips over the given dims."""
        pairs = list(grads_and_vars)
        update = self._optimizer.apply_gradients(pairs, global_step=global_step)
        with tf.control_dependencies([update]):
            clips = [
                tf.assign(var, tf.clip_by_norm(var.read_value(), self._max_norm, self._dims[var.name])).op
                for _, var in pairs
                if var.name in self._dims
            ]
        return tf.group(update, *clips, name=name)


class ExternalOptimizerInterface:
    """Minimises a loss by a function outside of the graph; subclasses say which.

    All variables travel as one float vector.
    """

    def __init__(
        self,
        loss: Any,
        var_list: Sequence[Any] | None = None,
        equalities: Sequence[Any] | None = None,
        inequalities: Sequence[Any] | None = None,
        var_to_bounds: dict[Any, tuple[Any, Any]] | None = None,
        **optimizer_kwargs: Any,
    ) -> None:
        """Adds the gradients and the ops that write variables to the graph.

        Args:
            loss: a scalar.
            var_list: variables; by default the trainable ones.
            equalities: tensors that shall be zero.
            inequalities: tensors that shall be at least zero.
            var_to_bounds: variable to (lower, upper), each broadcast to its shape.
            **optimizer_kwargs: for the optimizer.
        """
        self._vars = list(var_list) if var_list is not None else tf.trainable_variables()
        self._loss = loss
        self._equalities = list(equalities or [])
        self._inequalities = list(inequalities or [])
        self.optimizer_kwargs = optimizer_kwargs
        self._shapes = [var.shape.as_list() for var in self._vars]
        self._ends = np.cumsum([0] + [int(np.prod(shape)) for shape in self._shapes])
        self._packed_bounds = self._pack_bounds(var_to_bounds or {})
        self._loss_gradient = self._gradient(loss)
        self._constraint_gradients = [
            [self._gradient(item) for item in tf.unstack(tf.reshape(tensor, [-1]))]
            for tensor in [*self._equalities, *self._inequalities]
        ]
        self._values = [tf.placeholder(var.dtype.base_dtype, var.shape) for var in self._vars]
        self._assigns = [tf.assign(var, value).op for var, value in zip(self._vars, self._values)]

    def minimize(
        self,
        session: Any = None,
        feed_dict: Any = None,
        fetches: Sequence[Any] | None = None,
        step_callback: Callable[[Any], None] | None = None,
        loss_callback: Callable[..., None] | None = None,
        **run_kwargs: Any,
    ) -> None:
        """Minimises in a session, and leaves the result in the variables.

        ``loss_callback`` gets the values of ``fetches`` at each evaluation, ``step_callback`` the vector at each step.
        """
        session = session or tf.get_default_session()
        fetches = list(fetches or [])

        def evaluate(tensors: Sequence[Any], vector: Any, extra: Sequence[Any] = ()) -> tuple[list[Any], list[Any]]:
            self._write(session, vector)
            results = session.run([*tensors, *extra], feed_dict, **run_kwargs)
            return results[: len(tensors)], results[len(tensors) :]

        def loss_and_gradient(vector: Any) -> tuple[Any, Any]:
            (loss, gradient), extra = evaluate([self._loss, self._loss_gradient], vector, fetches)
            if loss_callback is not None:
                loss_callback(*extra)
            return float(loss), gradient.astype(np.float64)

        def constraint(tensor: Any) -> Callable[[Any], Any]:
            return lambda vector: np.ravel(evaluate([tensor], vector)[0][0])

        def constraint_gradient(gradients: list[Any]) -> Callable[[Any], Any]:
            return lambda vector: np.stack(evaluate(gradients, vector)[0])

        tensors = [*self._equalities, *self._inequalities]
        functions = [constraint(tensor) for tensor in tensors]
        jacobians = [constraint_gradient(rows) for rows in self._constraint_gradients]
        count = len(self._equalities)
        result = self._minimize(
            initial_val=np.concatenate([np.ravel(value) for value in session.run(self._vars)]).astype(np.float64),
            loss_grad_func=loss_and_gradient,
            equality_funcs=functions[:count],
            equality_grad_funcs=jacobians[:count],
            inequality_funcs=functions[count:],
            inequality_grad_funcs=jacobians[count:],
            packed_bounds=self._packed_bounds,
            step_callback=step_callback,
            optimizer_kwargs=self.optimizer_kwargs,
        )
        self._write(session, result)

    def _minimize(self, **problem: Any) -> Any:
        """The vector that minimises; see the call in ``minimize`` for the keywords."""
        raise NotImplementedError

    def _write(self, session: Any, vector: Any) -> None:
        pieces = [
            np.reshape(vector[start:end], shape)
            for start, end, shape in zip(self._ends[:-1], self._ends[1:], self._shapes)
        ]
        session.run(self._assigns, dict(zip(self._values, pieces)))

    def _gradient(self, scalar: Any) -> Any:
        rows = [
            tf.zeros_like(var) if grad is None else tf.convert_to_tensor(grad)
            for grad, var in zip(tf.gradients(scalar, self._vars), self._vars)
        ]
        return tf.concat([tf.reshape(row, [-1]) for row in rows], axis=0)

    def _pack_bounds(self, bounds: dict[Any, tuple[Any, Any]]) -> list[tuple[float, float]] | None:
        if not bounds:
            return None
        by_name = {var.name: pair for var, pair in bounds.items()}
        packed: list[tuple[float, float]] = []
        for var, shape in zip(self._vars, self._shapes):
            low, high = by_name.get(var.name, (-np.inf, np.inf))
            pairs = zip(np.ravel(np.broadcast_to(low, shape)), np.ravel(np.broadcast_to(high, shape)))
            packed.extend((float(lower), float(upper)) for lower, upper in pairs)
        return packed


class ScipyOptimizerInterface(ExternalOptimizerInterface):
    """``scipy.optimize.minimize``; keywords ``method`` and ``options`` are scipy's."""

    def _minimize(self, **problem: Any) -> Any:
        # scipy is no dependency of Whale; only scripts that use this class need it.
        from scipy.optimize import minimize

        keywords = dict(problem["optimizer_kwargs"])
        constraints = [
            {"type": kind, "fun": function, "jac": jacobian}
            for kind, functions, jacobians in (
                ("eq", problem["equality_funcs"], problem["equality_grad_funcs"]),
                ("ineq", problem["inequality_funcs"], problem["inequality_grad_funcs"]),
            )
            for function, jacobian in zip(functions, jacobians)
        ]
        method = keywords.pop("method", "SLSQP" if constraints else "L-BFGS-B")
        if constraints:
            keywords["constraints"] = constraints
        result = minimize(
            problem["loss_grad_func"],
            problem["initial_val"],
            jac=True,
            method=method,
            bounds=problem["packed_bounds"],
            callback=problem["step_callback"],
            **keywords,
        )
        tf.logging.info("optimization terminated with: %s (loss %s)", result.message, result.fun)
        return result.x
