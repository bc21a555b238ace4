"""BERT (see bert/) as a pipeline: its layers on several devices, which work on micro-batches one behind the other.

What differs from bert_pretrain.py is the scopes. The first stage has the input and the embeddings, the last one the
heads, and the layers are shared out evenly. Between neighbours goes one tensor, the hidden states, and back goes its
gradient. The mask and the labels go from the input to where they are read; the table of words belongs to both ends.

A script with annotations runs in local batch mode: every micro-batch is a draw of ``--batch`` sequences of its own, so
a step sees ``--batch`` times ``--micro-batches`` of them, and as many more for every further replica of the pipeline.

    whale run --devices 4 examples/bert_pipeline.py
"""

from __future__ import annotations

import argparse

import bert
import tensorflow.compat.v1 as tf

import whale as wh

tf.disable_v2_behavior()


def arguments() -> argparse.Namespace:
    """The flags; their defaults are the model and the step of bert_pretrain.py."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--print-every", type=int, default=10)
    parser.add_argument("--batch", type=int, default=4, help="sequences in a micro-batch")
    parser.add_argument("--length", type=int, default=64, help="tokens in a sequence")
    parser.add_argument("--masked", type=int, default=10, help="most masked words in a sequence")
    parser.add_argument("--vocabulary", type=int, default=2000)
    parser.add_argument("--characters", type=int, help="how much of the text to read; all by default")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not 1 <= args.stages <= args.layers:
        parser.error(f"{args.layers} layers cannot be shared out over {args.stages} stages")
    return args


def pipelined_losses(
    corpus: bert.Corpus, config: bert.BertConfig, args: argparse.Namespace
) -> tuple[tf.Tensor, tf.Tensor]:
    """The masked-word loss and the next-sentence loss of a micro-batch, by a model that is built stage by stage."""
    # The pipeline takes one device for each stage; where there are more, the replica scope makes copies of it.
    with wh.replica(), wh.pipeline(num_micro_batch=args.micro_batches):
        for stage in range(args.stages):
            layers = range(stage * args.layers // args.stages, (stage + 1) * args.layers // args.stages)
            with wh.stage(name=f"layers {layers.start} to {layers.stop - 1}"):
                if stage == 0:
                    features = bert.batches(corpus.training, args.batch, args.seed)
                    mask = bert.attention_mask(features["input_mask"])
                    hidden, words = bert.embeddings(features["token_ids"], features["type_ids"], config)
                hidden = bert.encoder(hidden, mask, config, layers=layers)
                if stage == args.stages - 1:
                    logits = bert.pretraining_logits(hidden, words, features["masked_positions"], config)
                    losses = bert.pretraining_losses_of(*logits, features)
    return losses


def main() -> None:
    """Train for ``--steps`` and print both losses every ``--print-every`` steps."""
    args = arguments()
    corpus = bert.read_corpus(args.vocabulary, args.length, args.masked, args.seed, args.characters)
    wh.init()
    tf.set_random_seed(args.seed)

    config = bert.BertConfig(len(corpus.vocabulary), args.hidden, args.layers, args.heads)
    masked_words, next_sentence = pipelined_losses(corpus, config, args)
    # What is fetched is the mean over all micro-batches of the step.
    wh.add_to_collection([masked_words, next_sentence], wh.GraphKeys.GLOBAL_MEAN_OBJECTS)

    # Gradients and updates follow the stage of their variable; clipping reads the gradients of all stages.
    global_step = tf.train.get_or_create_global_step()
    rate = bert.warmed_up_learning_rate(global_step, args.learning_rate, args.steps, args.steps // 10)
    train_op = bert.train_op(masked_words + next_sentence, bert.AdamWeightDecay(rate), global_step)
    with tf.control_dependencies([train_op]):
        steps_done = global_step.read_value()

    with tf.train.MonitoredTrainingSession(log_step_count_steps=None) as sess:
        step, totals = 0, [0.0, 0.0]
        while step < args.steps:
            step, *losses = sess.run([steps_done, masked_words, next_sentence])
            totals = [total + loss for total, loss in zip(totals, losses)]
            if step % args.print_every == 0:
                in_words, in_sentences = (total / args.print_every for total in totals)
                print(f"step {step:4d}  masked words {in_words:.4f}  next sentence {in_sentences:.4f}", flush=True)
                totals = [0.0, 0.0]


if __name__ == "__main__":
    main()
