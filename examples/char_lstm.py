"""A character-level LSTM that learns to write Python, by truncated back-propagation through time.

The text is the source of Python's own library. Every step reads the next ``--unroll`` characters of ``--batch-size``
parallel streams and starts from the state that the last step ended in: the state is fetched and fed back.

    python examples/char_lstm.py
    whale run --devices 4 examples/char_lstm.py
"""

from __future__ import annotations

import argparse
import pathlib
import sysconfig
from collections.abc import Iterator

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def read_text(characters: int) -> str:
    """The first ``characters`` of the standard library's public top-level modules, in the order of their names."""
    pieces: list[str] = []
    length = 0
    for path in sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("[a-z]*.py")):
        pieces.append(path.read_text(encoding="utf-8", errors="replace"))
        length += len(pieces[-1])
        if length >= characters:
            break
    return "".join(pieces)[:characters]


def encode(text: str) -> tuple[np.ndarray, str]:
    """Character ids, int32 [len(text)], and the alphabet they index; rare characters share the last id."""
    counts = {character: text.count(character) for character in set(text)}
    alphabet = "".join(sorted(c for c, n in counts.items() if n >= 10 and c != "\0")) + "\0"
    index = {character: i for i, character in enumerate(alphabet)}
    return np.array([index.get(c, len(alphabet) - 1) for c in text], dtype=np.int32), alphabet


def windows(ids: np.ndarray, batch_size: int, unroll: int) -> Iterator[tuple[bool, np.ndarray, np.ndarray]]:
    """Endless (is this the start of the text, inputs, targets); both are [batch_size, unroll], targets one ahead."""
    columns = (len(ids) - 1) // batch_size
    inputs = ids[: batch_size * columns].reshape(batch_size, columns)
    targets = ids[1 : batch_size * columns + 1].reshape(batch_size, columns)
    while True:
        for start in range(0, columns - unroll + 1, unroll):
            yield start == 0, inputs[:, start : start + unroll], targets[:, start : start + unroll]


def main() -> None:
    """Train for ``--steps`` and print the mean loss in nats per character every ``--print-every`` steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--print-every", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--unroll", type=int, default=40)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=4e-3)
    parser.add_argument("--clip-norm", type=float, default=0.25)
    parser.add_argument("--characters", type=int, default=500_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    ids, alphabet = encode(read_text(args.characters))
    print(f"{len(ids)} characters, {len(alphabet)} distinct")
    tf.set_random_seed(args.seed)

    inputs = tf.placeholder(tf.int32, [args.batch_size, args.unroll], name="inputs")
    targets = tf.placeholder(tf.int32, [args.batch_size, args.unroll], name="targets")
    cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.LSTMCell(args.hidden) for _ in range(args.layers)])
    start_state = cell.zero_state(args.batch_size, tf.float32)

    with tf.variable_scope("char_lstm", initializer=tf.glorot_uniform_initializer()):
        table = tf.get_variable("embedding", [len(alphabet), args.hidden])
        outputs, end_state = tf.nn.dynamic_rnn(
            cell, tf.nn.embedding_lookup(table, inputs), initial_state=start_state, dtype=tf.float32
        )
        weights = tf.get_variable("softmax_weights", [args.hidden, len(alphabet)])
        bias = tf.get_variable("softmax_bias", [len(alphabet)], initializer=tf.zeros_initializer())
        logits = tf.matmul(tf.reshape(outputs, [args.batch_size * args.unroll, args.hidden]), weights) + bias
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(targets, [-1]), logits=logits)
    )

    variables = tf.trainable_variables()
    gradients, norm = tf.clip_by_global_norm(tf.gradients(loss, variables), args.clip_norm)
    optimizer = tf.train.AdamOptimizer(args.learning_rate)
    train_op = optimizer.apply_gradients(zip(gradients, variables))

    batches = windows(ids, args.batch_size, args.unroll)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        state = sess.run(start_state)
        total = 0.0
        for step in range(1, args.steps + 1):
            restart, batch_inputs, batch_targets = next(batches)
            if restart:
                state = sess.run(start_state)
            feed = {inputs: batch_inputs, targets: batch_targets, start_state: state}
            _, batch_loss, state, batch_norm = sess.run([train_op, loss, end_state, norm], feed)
            total += float(batch_loss)
            if step % args.print_every == 0:
                mean = total / args.print_every
                print(f"step {step:5d}  loss {mean:.4f}  gradient norm {batch_norm:.3f}", flush=True)
                total = 0.0


if __name__ == "__main__":
    main()
