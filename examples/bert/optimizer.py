"""How BERT is trained: warm-up and decay of the learning rate, clipping by the global norm, Adam with weight decay."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow.compat.v1 as tf


def warmed_up_learning_rate(step: tf.Tensor, peak: float, total_steps: int, warmup_steps: int) -> tf.Tensor:
    """A rate that rises from 0 to ``peak`` in ``warmup_steps``, then falls along a line to 0 at ``total_steps``.

    The line of the fall starts at step 0, so the rate after the warm-up is a little below ``peak``, as in BERT.
    """
    decayed = tf.train.polynomial_decay(peak, step, total_steps, end_learning_rate=0.0, power=1.0)
    rising = peak * tf.cast(step, tf.float32) / max(warmup_steps, 1)
    return tf.where(step < warmup_steps, rising, decayed)


class AdamWeightDecay(tf.train.Optimizer):
    """Adam without bias correction and with weight decay apart from the gradient (Loshchilov and Hutter, 2017).

    Layer norms and biases (vectors) are not decayed.
    """

    slots = ("adam_m", "adam_v")

    def __init__(self, learning_rate: tf.Tensor, weight_decay: float = 0.01, name: str = "AdamWeightDecay") -> None:
        """``learning_rate`` is a scalar tensor."""
        super().__init__(use_locking=False, name=name)
        self._learning_rate = learning_rate
        self._weight_decay = weight_decay
        self._beta1, self._beta2, self._epsilon = 0.9, 0.999, 1e-6

    def _rate(self, variable: tf.Variable, update: tf.Tensor) -> tf.Tensor:
        return self._learning_rate

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[tf.Tensor | None, tf.Variable]],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """One update of the variables; unlike the base class's, it is written with ``tf.assign``."""
        assignments: list[tf.Tensor] = []
        for gradient, variable in grads_and_vars:
            if gradient is None:
                continue
            moment1, moment2 = (
                tf.get_variable(
                    f"{variable.op.name}/{slot}",
                    variable.shape.as_list(),
                    initializer=tf.zeros_initializer(),
                    trainable=False,
                )
                for slot in self.slots
            )
            # The gradient of a table that is only looked up has the rows that were; here it is made whole.
            gradient = tf.convert_to_tensor(gradient)
            next1 = self._beta1 * moment1 + (1.0 - self._beta1) * gradient
            next2 = self._beta2 * moment2 + (1.0 - self._beta2) * tf.square(gradient)
            update = next1 / (tf.sqrt(next2) + self._epsilon)
            if self._weight_decay > 0.0 and len(variable.shape) > 1:
                update += self._weight_decay * variable
            next_value = variable - self._rate(variable, update) * update
            assignments += [
                tf.assign(variable, next_value),
                tf.assign(moment1, next1),
                tf.assign(moment2, next2),
            ]
        if global_step is None:
            return tf.group(*assignments, name=name)
        # The learning rate reads the step, so it moves on only after the updates.
        with tf.control_dependencies(assignments):
            return tf.assign_add(global_step, 1, name=name).op


class Lamb(AdamWeightDecay):
    """LAMB: the update of a variable is scaled to the norm of its values (You et al., 2019)."""

    slots = ("lamb_m", "lamb_v")

    def __init__(self, learning_rate: tf.Tensor, weight_decay: float = 0.01, name: str = "Lamb") -> None:
        """As for `AdamWeightDecay`."""
        super().__init__(learning_rate, weight_decay, name)

    def _rate(self, variable: tf.Variable, update: tf.Tensor) -> tf.Tensor:
        value_norm, update_norm = tf.norm(variable), tf.norm(update)
        usable = tf.logical_and(value_norm > 0.0, update_norm > 0.0)
        return self._learning_rate * tf.where(usable, value_norm / update_norm, 1.0)


def train_op(
    loss: tf.Tensor, optimizer: tf.train.Optimizer, global_step: tf.Variable, clip_norm: float = 1.0
) -> tf.Operation:
    """One step: gradients of ``loss``, clipped together to ``clip_norm``, applied by ``optimizer``."""
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), clip_norm)
    return optimizer.apply_gradients(zip(gradients, variables), global_step=global_step)
