"""The table of configuration keys."""

from __future__ import annotations

from typing import Any

from whale.config.kinds import (
    DEVICE_LIST,
    LOSS_SCALE,
    NOT_NEGATIVE,
    OPTIONAL_SWITCH,
    POSITIVE,
    SCHEDULE,
    SWITCH,
    choice,
    integer,
)
from whale.config.setting import Category, Setting

_ONE_READER = "one process reads all the input and every batch is cut over its devices, so there are no files to slice"
_MORE_DEVICES = "to fit a larger model or batch, cut the batch over more devices (whale run --devices N)"
_OWN_TYPE = "gradients travel in the type the script computes them in"
_OWN_PRECISION = "build the layers in tf.float16 and scale the loss in the script, as on one device"


class Auto(Category):
    """Strategies chosen by Whale."""

    category = "auto"
    auto_parallel = Setting(SWITCH, False, "Let Whale choose the strategy for a script without annotations.")


class Io(Category):
    """Input files over workers."""

    category = "io"
    slicing = Setting(SWITCH, False, "Give each worker its share of the input files.", instead=_ONE_READER)
    unbalanced_io_slicing = Setting(SWITCH, False, "Allow shares of unequal size.", instead=_ONE_READER)
    drop_last_files = Setting(SWITCH, False, "Drop files that would make shares unequal.", instead=_ONE_READER)


class Communication(Category):
    """How gradients are summed over devices."""

    category = "communication"
    sparse_as_dense = Setting(
        SWITCH,
        False,
        "Make sparse gradients dense before they are summed. Whale sends the rows that the batch touches either way, "
        "which gives the same numbers; the plan says so.",
    )
    max_splits = Setting(integer(1), 5, "Most buckets that gradients are packed into; large ones travel alone.")
    num_splits = max_splits
    num_communicators = Setting(integer(1), 2, "Buckets that may be on their way at one time.")
    fp16 = Setting(SWITCH, False, "Send gradients as float16.", instead=_OWN_TYPE)
    fp16_scale = Setting(POSITIVE, 128, "Factor on gradients sent as float16.", instead=_OWN_TYPE)
    clip_after_allreduce = Setting(
        SWITCH,
        False,
        "Clip gradients after they are summed.",
        instead="clipping in the script already sees the gradients of the whole batch",
    )
    gradients_reduce_method = Setting(
        choice("mean", "sum"),
        "mean",
        "What one device's loss becomes over many: the mean over the batch, or the sum.",
        instead="to train on a sum over the batch, write tf.reduce_sum in the script's loss",
    )
    hierarchical_all_reduce = Setting(
        SWITCH,
        False,
        "Sum inside each host first, then between hosts.",
        instead="all devices are in one process, whose gradients are summed in one step",
    )
    backend = Setting(
        choice("tf", "horovod"),
        "tf",
        "Who carries the sums: TensorFlow's own collectives or Horovod.",
        instead="TensorFlow's collectives do the same work",
    )


class Pipeline(Category):
    """Stages over devices, fed with micro-batches."""

    category = "pipeline"
    num_micro_batch = Setting(integer(1), 1, "Micro-batches one step is cut into.")
    num_stages = Setting(integer(-1), -1, "Stages to cut the model into; -1: by annotation.", instead=_MORE_DEVICES)
    strategy = Setting(
        SCHEDULE,
        "PreferBackward",
        "Order of micro-batches: PreferBackward is 1F1B, PreferForward is GPipe, PreferBackwardOptimizer is 1F1B with "
        "one more micro-batch under way, Interleaved gives a device several stages.",
    )


class GradientCheckpoint(Category):
    """Activations computed again in the backward pass instead of being kept."""

    category = "gradient_checkpoint"
    type = Setting(
        choice("", "collection", "auto"),
        "",
        'Which tensors are kept: none chosen, those of the collection "checkpoints", or Whale\'s choice.',
        instead=_MORE_DEVICES,
    )
    end_taskgraph = Setting(integer(-1), -1, "Last TaskGraph computed again; -1: all.", instead=_MORE_DEVICES)
    check_gradients = Setting(
        SWITCH, False, "Compare the gradients with those of kept activations.", instead=_MORE_DEVICES
    )


class Zero(Category):
    """Optimizer state, gradients and variables sharded over replicas."""

    category = "zero"
    level = Setting(
        choice("", "v0", "v1", "v2", "v3"),
        "",
        "What is sharded; empty: nothing.",
        instead="every device keeps whole variables and optimizer state",
    )


class Offload(Category):
    """Variables kept in host memory."""

    category = "offload"
    level = Setting(
        choice("", "v0"),
        "",
        "v0 keeps all variables on the host; empty: none.",
        instead='pin single variables with tf.device("/cpu:0") in the script',
    )


class Amp(Category):
    """Mixed precision."""

    category = "amp"
    level = Setting(choice("", "O1"), "", "O1 computes in float16 where it is safe.", instead=_OWN_PRECISION)
    debug_log = Setting(SWITCH, False, "Log which ops change precision.", instead=_OWN_PRECISION)
    loss_scale = Setting(LOSS_SCALE, "dynamic", "Factor on the loss in mixed precision.", instead=_OWN_PRECISION)


class ClusterSettings(Category):
    """Which devices are used and how they are laid out."""

    category = "cluster"
    device_place_prefer_intra_node = Setting(SWITCH, True, "Keep a model replica inside one host where it fits.")
    run_visible_devices = Setting(DEVICE_LIST, "", "Local devices to use, by number; empty: all.")
    colocate_split_and_replicate = Setting(
        SWITCH,
        False,
        "Put split and replicated TaskGraphs on the same devices.",
        instead="remove the key, and put the ops of wh.split scopes under wh.replica(), which keeps them whole on "
        "every device",
        needs="wh.split",
    )


class Optimizer(Category):
    """How updates are applied."""

    category = "optimizer"
    num_apply_group = Setting(
        integer(1),
        1,
        "Groups that updates are applied in, one after another, to save memory.",
        instead="all updates of a step are applied together",
    )


class Batch(Category):
    """What the batch in the script means on several devices."""

    category = "batch"
    mode = Setting(
        choice("", "global", "local"),
        "",
        "global: the script's batch is cut over devices; local: each device draws a batch of its own. "
        "Empty: local for scripts with annotations, global for all others.",
    )
    sync = Setting(
        OPTIONAL_SWITCH,
        None,
        "True: batch statistics and ratios are those of the whole batch, as on one device; False: each device "
        "uses its own, which is faster and approximate. None: False in local mode, True in global mode, where fused "
        "batch norm has the statistics of each micro-batch if there are several.",
    )


class Random(Category):
    """Random numbers shaped like the batch (dropout, noise)."""

    category = "random"
    mode = Setting(
        choice("", "exact", "independent"),
        "",
        "exact: each device uses its slice of what one device would draw; independent: each draws its own. "
        "Empty: exact in global mode, independent in local mode.",
    )


class Check(Category):
    """The comparison of whole and cut gradients before the first update."""

    category = "check"
    shorthand = "mode"
    mode = Setting(
        choice("auto", "on", "off"),
        "auto",
        "Whether to make it; on a mismatch the batch is not cut. "
        "`auto`: for graphs small enough that it takes seconds.",
    )


class Hang(Category):
    """The end of steps that wait for themselves."""

    category = "hang"
    seconds = Setting(
        NOT_NEGATIVE,
        300,
        "A step over several devices in which no node finishes for so many seconds, and that waits for no input, is "
        "ended with an error that says who waits for what; its session is closed. 0: never.",
    )


CATEGORIES: tuple[type[Category], ...] = (
    Auto,
    Io,
    Communication,
    Pipeline,
    GradientCheckpoint,
    Zero,
    Offload,
    Amp,
    ClusterSettings,
    Optimizer,
    Batch,
    Random,
    Check,
    Hang,
)
"""Every category, in the order of the reference page."""


SETTINGS: dict[str, Setting[Any]] = {
    f"{category.category}.{name}": setting for category in CATEGORIES for name, setting in category.settings().items()
}
"""Every setting by full key; an alias is a key too."""
