"""rnn, seq2seq, legacy_seq2seq, crf, cudnn_rnn: TensorFlow's own cells, and ports of the rest."""

from __future__ import annotations

from whale_tf1.areas import PORTS, Area

_NN = "tensorflow.compat.v1.nn"
_CELLS = ("BasicLSTMCell", "BasicRNNCell", "DeviceWrapper", "DropoutWrapper", "GRUCell", "LSTMCell", "LSTMStateTuple")
_CELLS += ("MultiRNNCell", "ResidualWrapper", "RNNCell")
_LOOPS = ("dynamic_rnn", "bidirectional_dynamic_rnn", "raw_rnn", "static_rnn", "static_bidirectional_rnn")
_LOOPS += ("static_state_saving_rnn",)

RNN = Area(
    "rnn",
    sources=(
        f"{PORTS}.rnn_wrappers",
        f"{PORTS}.rnn_cells",
        f"{PORTS}.rnn_gated_cells",
        f"{PORTS}.rnn_conv_cells",
        f"{PORTS}.rnn_fused",
        f"{PORTS}.rnn_loops",
    ),
    symbols={
        **{name: f"{_NN}:rnn_cell.{name}" for name in _CELLS},
        **{name: f"{_NN}:{name}" for name in _LOOPS},
        # Public code imports these two private names from contrib's cells.
        "_linear": f"{PORTS}.rnn_linear:linear",
        "_Linear": f"{PORTS}.rnn_linear:Linear",
        "_RNNCell": f"{_NN}:rnn_cell.RNNCell",
        "_LSTMStateTuple": f"{_NN}:rnn_cell.LSTMStateTuple",
        "LayerRNNCell": "tensorflow.python.ops.rnn_cell_impl:LayerRNNCell",
    },
    modules={
        "python.ops.core_rnn_cell": "",
        "python.ops.core_rnn_cell_impl": "",
        "python.ops.core_rnn": "",
        "python.ops.rnn": "",
        "python.ops.rnn_cell": "",
        "python.ops.lstm_ops": "",
        "python.ops.gru_ops": "",
        "python.ops.fused_rnn_cell": "",
    },
)

_SEQ2SEQ_PORTS = (
    "decoder",
    "helpers",
    "custom_helpers",
    "scheduled",
    "attention",
    "monotonic",
    "attention_wrapper",
    "beam_search",
    "loss",
)

SEQ2SEQ = Area(
    "seq2seq",
    sources=tuple(f"{PORTS}.seq2seq.{name}" for name in _SEQ2SEQ_PORTS),
    modules={
        f"python.ops.{name}": ""
        for name in (
            "attention_wrapper",
            "basic_decoder",
            "beam_search_decoder",
            "beam_search_ops",
            "decoder",
            "helper",
            "loss",
        )
    },
    gone={
        name: "this function of early TF 1.0 is superseded: use BasicDecoder with a helper and dynamic_decode"
        for name in (
            "dynamic_rnn_decoder",
            "simple_decoder_fn_train",
            "attention_decoder_fn_train",
            "prepare_attention",
        )
    },
)

LEGACY_SEQ2SEQ = Area(
    "legacy_seq2seq",
    sources=tuple(f"{PORTS}.legacy_{name}" for name in ("seq2seq", "attention", "decoder", "losses")),
    modules={"python.ops.seq2seq": ""},
)

CRF = Area("crf", sources=(f"{PORTS}.crf",), modules={"python.ops.crf": ""})

CUDNN_RNN = Area(
    "cudnn_rnn",
    sources=(f"{PORTS}.cudnn_rnn",),
    modules={"python.layers.cudnn_rnn": "", "python.ops.cudnn_rnn_ops": ""},
    way_out="CudnnLSTM, CudnnGRU and their compatible cells are there; use tf.nn.rnn_cell cells with tf.nn.dynamic_rnn "
    "for others",
)

SEQUENCE_AREAS = (RNN, SEQ2SEQ, LEGACY_SEQ2SEQ, CRF, CUDNN_RNN)
