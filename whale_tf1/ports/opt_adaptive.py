"""Optimizers of ``tf.contrib.opt`` that change Adam: AdaMax, Nadam, lazy Adam, decoupled weight decay."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

__all__ = [
    "AdaMaxOptimizer",
    "AdamWOptimizer",
    "DecoupledWeightDecayExtension",
    "LazyAdamOptimizer",
    "MomentumWOptimizer",
    "NadamOptimizer",
    "extend_with_decoupled_weight_decay",
]


class LazyAdamOptimizer(tf.train.AdamOptimizer):
    """Adam that, for sparse gradients, moves only the rows that have one: their moments, and their weights."""

    def _apply_sparse_shared(self, grad: Any, var: Any, indices: Any, scatter_add: Any) -> Any:
        del scatter_add  # rows are replaced, not added to
        return self._update_rows(grad, var, indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._update_rows(grad, var, indices)

    def _update_rows(self, grad: Any, var: Any, indices: Any) -> Any:
        dtype = var.dtype.base_dtype
        beta1, beta2 = tf.cast(self._beta1_t, dtype), tf.cast(self._beta2_t, dtype)
        power1, power2 = (tf.cast(power, dtype) for power in self._get_beta_accumulators())
        rate = tf.cast(self._lr_t, dtype) * tf.sqrt(1 - power2) / (1 - power1)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        new_v = beta2 * tf.gather(v, indices) + (1 - beta2) * tf.square(grad)
        step = rate * new_m / (tf.sqrt(new_v) + tf.cast(self._epsilon_t, dtype))
        return tf.group(
            tf.scatter_update(m, indices, new_m),
            tf.scatter_update(v, indices, new_v),
            tf.scatter_sub(var, indices, step),
        )


class NadamOptimizer(tf.train.AdamOptimizer):
    """Adam with Nesterov's look-ahead (Dozat, 2016): the step uses beta1 m + (1 - beta1) g."""

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._nesterov_step(grad, var)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return self._nesterov_step(grad, var)

    def _nesterov_step(self, grad: Any, var: Any) -> Any:
        dtype = var.dtype.base_dtype
        beta1, beta2 = tf.cast(self._beta1_t, dtype), tf.cast(self._beta2_t, dtype)
        power1, power2 = (tf.cast(power, dtype) for power in self._get_beta_accumulators())
        rate = tf.cast(self._lr_t, dtype) * tf.sqrt(1 - power2) / (1 - power1)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = tf.assign(m, beta1 * m + (1 - beta1) * grad)
        new_v = tf.assign(v, beta2 * v + (1 - beta2) * tf.square(grad))
        ahead = beta1 * new_m + (1 - beta1) * grad
        return tf.assign_sub(var, rate * ahead / (tf.sqrt(new_v) + tf.cast(self._epsilon_t, dtype)))


class AdaMaxOptimizer(tf.train.AdamOptimizer):
    """Adam in the infinity norm (Kingma and Ba, 2014): v = max(beta2 v, |g|), step = rate / (1 - beta1^t) m / v."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "AdaMax",
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._max_step(grad, var)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return self._max_step(grad, var)

    def _max_step(self, grad: Any, var: Any) -> Any:
        dtype = var.dtype.base_dtype
        beta1, beta2 = tf.cast(self._beta1_t, dtype), tf.cast(self._beta2_t, dtype)
        power1 = tf.cast(self._get_beta_accumulators()[0], dtype)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = tf.assign(m, beta1 * m + (1 - beta1) * grad)
        new_v = tf.assign(v, tf.maximum(beta2 * v, tf.abs(grad)))
        rate = tf.cast(self._lr_t, dtype) / (1 - power1)
        return tf.assign_sub(var, rate * new_m / (new_v + tf.cast(self._epsilon_t, dtype)))

    def _apply_sparse_shared(self, grad: Any, var: Any, indices: Any, scatter_add: Any) -> Any:
        del scatter_add
        return self._max_rows(grad, var, indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._max_rows(grad, var, indices)

    def _max_rows(self, grad: Any, var: Any, indices: Any) -> Any:
        dtype = var.dtype.base_dtype
        beta1, beta2 = tf.cast(self._beta1_t, dtype), tf.cast(self._beta2_t, dtype)
        power1 = tf.cast(self._get_beta_accumulators()[0], dtype)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        new_v = tf.maximum(beta2 * tf.gather(v, indices), tf.abs(grad))
        step = tf.cast(self._lr_t, dtype) / (1 - power1) * new_m / (new_v + tf.cast(self._epsilon_t, dtype))
        return tf.group(
            tf.scatter_update(m, indices, new_m),
            tf.scatter_update(v, indices, new_v),
            tf.scatter_sub(var, indices, step),
        )


class DecoupledWeightDecayExtension:
    """Mixed into an optimizer: weights shrink by ``weight_decay * weight`` before each update (Loshchilov, 2017).

    The decay is not multiplied by the learning rate, and is not part of the loss.
    """

    def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
        self._weight_decay = weight_decay
        self._decay_var_list: Any = None
        super().__init__(*args, **kwargs)

    def minimize(self, loss: Any, *args: Any, decay_var_list: Any = None, **kwargs: Any) -> Any:
        """As the optimizer; decays ``decay_var_list`` only, by default every variable that has a gradient."""
        self._decay_var_list = decay_var_list
        return super().minimize(loss, *args, **kwargs)  # type: ignore[misc]

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None, decay_var_list: Any = None
    ) -> Any:
        """Decays, then updates."""
        pairs = list(grads_and_vars)
        chosen = decay_var_list if decay_var_list is not None else self._decay_var_list
        variables = [var for grad, var in pairs if grad is not None]
        if chosen is not None:
            names = {var.name for var in chosen}
            variables = [var for var in variables if var.name in names]
        # The gradients are of the weights before they shrink.
        with tf.control_dependencies([grad for grad, _ in pairs if grad is not None]):
            decays = [tf.assign_sub(var, self._rate(var) * var, use_locking=False).op for var in variables]
        with tf.control_dependencies(decays):
            return super().apply_gradients(pairs, global_step=global_step, name=name)  # type: ignore[misc]

    def _rate(self, var: Any) -> Any:
        rate = self._weight_decay() if callable(self._weight_decay) else self._weight_decay
        return tf.cast(rate, var.dtype.base_dtype)


def extend_with_decoupled_weight_decay(base_optimizer: type) -> type:
    """A class like ``base_optimizer`` whose first argument is ``weight_decay``."""

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):
        """The base optimizer with decoupled weight decay."""

    return OptimizerWithDecoupledWeightDecay


class MomentumWOptimizer(DecoupledWeightDecayExtension, tf.train.MomentumOptimizer):
    """Momentum with decoupled weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(weight_decay, learning_rate, momentum, use_locking, name, use_nesterov)


class AdamWOptimizer(DecoupledWeightDecayExtension, tf.train.AdamOptimizer):
    """Adam with decoupled weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        super().__init__(weight_decay, learning_rate, beta1, beta2, epsilon, use_locking, name)
