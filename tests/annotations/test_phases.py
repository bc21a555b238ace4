"""What each op of a graph is for, in graphs of many kinds; and the table of variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import tensorflow.compat.v1 as tf

from tests.annotations.graphs import BUILDERS, batch, dense, embedding, mlp_adam, mlp_loss, new_graph
from whale.annotations.capture import capture
from whale.annotations.phases import classify
from whale.annotations.variables import complete, tabulate, trainable_names
from whale.ir.program import Phase, Program
from whale.ir.text import text
from whale.ir.verify import verify


def build(name: str, *, resource: bool = False) -> Program:
    """The program of one of the graphs."""
    # A tape cannot watch reference variables.
    with new_graph(control_flow_v2=name == "loop_v2", resource=resource or name == "mlp_tape") as graph:
        BUILDERS[name]()
        return complete(capture(graph), graph)


def of(builder: Callable[[], None], *, resource: bool = False) -> Program:
    """The program of a graph built by a function."""
    with new_graph(resource=resource) as graph:
        builder()
        return complete(capture(graph), graph)


def phases(program: Program) -> dict[str, str]:
    """Phases by op."""
    return {name: op.phase.value for name, op in program.ops.items()}


def as_imported(program: Program) -> Program:
    """The program as an imported MetaGraph or a tape leaves it: nothing says what is the gradient of what."""
    trainable = frozenset(variable.name for variable in program.variables.values() if variable.trainable)
    bare = {name: dataclasses.replace(op, forward=None, phase=Phase.OTHER) for name, op in program.ops.items()}
    return tabulate(dataclasses.replace(program, ops=bare, variables={}), trainable)


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
@pytest.mark.parametrize("name", BUILDERS)
def test_every_graph_is_well_formed(name: str, resource: bool) -> None:
    program = build(name, resource=resource)
    assert verify(program) == []
    assert all(variable.gradients for variable in program.variables.values() if variable.trainable)
    assert all(op.forward is not None for op in program.ops.values() if op.phase is Phase.BACKWARD and op.inputs)


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
@pytest.mark.parametrize("name", [name for name in BUILDERS if name != "gradient_penalty"])
def test_structure_alone_finds_the_backward_pass(name: str, resource: bool) -> None:
    program = build(name, resource=resource)
    imported = as_imported(program)
    read = {tensor.rpartition(":")[0] for op in program.ops.values() for tensor in op.inputs}
    # Shapes that the gradient of nothing reads are all that may be told otherwise.
    idle = {name for name, op in program.ops.items() if name not in read and not op.controls}
    before, after = phases(program), phases(imported)
    differing = {name for name in before if before[name] != after[name]} - idle
    assert all(program.ops[name].type in ("Shape", "Const") for name in differing), differing
    assert imported.variables == program.variables


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
def test_an_inner_gradient_without_a_note_is_of_the_forward_pass(resource: bool) -> None:
    program = build("gradient_penalty", resource=resource)
    imported = as_imported(program)
    assert imported.variables == program.variables
    assert program.ops["gradients/Tanh_grad/TanhGrad"].phase is Phase.BACKWARD
    assert imported.ops["gradients/Tanh_grad/TanhGrad"].phase is Phase.FORWARD
    for found in (program, imported):
        assert found.ops["add"].phase is Phase.FORWARD  # the loss, which reads the inner gradient
        assert found.ops["gradients_1/Sqrt_grad/SqrtGrad"].phase is Phase.BACKWARD


@pytest.mark.parametrize("name", ["mlp_adam", "mlp_clipped"])
def test_the_text_of_a_training_graph(name: str, golden: Callable[..., None]) -> None:
    golden(text(build(name)))


def test_each_phase_of_a_plain_training_graph() -> None:
    found = phases(of(mlp_adam))
    assert found["x"] == found["truediv"] == "input"  # the scaled features depend on no variable
    assert found["MatMul"] == found["Mean"] == found["hidden/kernel"] == found["hidden/kernel/read"] == "forward"
    assert found["gradients/grad_ys_0"] == found["gradients/MatMul_grad/MatMul_1"] == "backward"
    assert found["train/update_hidden/kernel/ApplyAdam"] == found["train"] == "update"
    assert found["hidden/kernel/Adam"] == found["beta1_power"] == found["ExponentialDecay"] == "update"
    assert found["hidden/kernel/Assign"] == found["hidden/kernel/Initializer/random_uniform"] == "init"
    assert found["init"] == "init"
    assert (
        found["save/SaveV2"] == found["save/RestoreV2"] == found["save/Assign"] == found["save/restore_all"] == "save"
    )
    assert found["loss"] == "other"


def test_clipping_is_of_the_update() -> None:
    program = build("mlp_clipped")
    found = phases(program)
    assert found["global_norm/L2Loss"] == found["clip_by_global_norm/mul_1"] == "update"
    assert program.variables["hidden/kernel"].gradients == ("gradients/MatMul_grad/tuple/control_dependency_1:0",)


def test_a_loss_that_only_its_gradient_reads_is_forward() -> None:
    for program in (build("mlp_root"), as_imported(build("mlp_root"))):
        assert program.ops["Sqrt"].phase is Phase.FORWARD
        assert program.ops["gradients/Sqrt_grad/SqrtGrad"].phase is Phase.BACKWARD


def test_loops_of_the_forward_pass_keep_what_is_pushed_on_stacks() -> None:
    program = build("lstm")
    for op in program.ops.values():
        if op.type == "StackPushV2":
            assert op.phase is Phase.FORWARD and op.forward is None
        if op.type == "StackPopV2":
            assert op.phase is Phase.BACKWARD
    assert program.ops["gradients/f_count"].phase is Phase.FORWARD
    assert program.ops["gradients/b_count"].phase is Phase.BACKWARD


def test_a_data_pipeline_is_input_and_moving_averages_are_updates() -> None:
    found = phases(build("convolution"))
    assert found["BatchDatasetV2"] == found["IteratorGetNext"] == found["sub"] == "input"
    assert found["MakeIterator"] == "init"
    assert found["AssignSub"] == "update"
    assert found["gradients/FusedBatchNormV3_grad/tuple/group_deps"] == "backward"  # it waits for the average too


def test_queues_are_input() -> None:
    def builder() -> None:
        files = tf.train.string_input_producer(["a", "b"], shuffle=False)
        _, line = tf.TextLineReader().read(files)
        x = tf.train.batch([tf.decode_csv(line, [[0.0]] * 4)], 8)
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(dense(x, 3, "out")))

    program = of(builder)
    kinds = {op.type: op.phase.value for op in program.ops.values()}
    assert kinds["TextLineReaderV2"] == kinds["ReaderReadV2"] == kinds["QueueEnqueueV2"] == "input"
    assert kinds["DecodeCSV"] == kinds["QueueDequeueManyV2"] == "input"
    assert kinds["MatMul"] in ("forward", "backward")


def test_tables_and_their_initialisers() -> None:
    def builder() -> None:
        words = tf.placeholder(tf.string, [None])
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [0, 1]), -1)
        vectors = tf.get_variable("vectors", [2, 3])
        rows = tf.nn.embedding_lookup(vectors, tf.maximum(table.lookup(words), 0))
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(rows))
        tf.tables_initializer()

    kinds = {op.type: op.phase.value for op in of(builder).ops.values()}
    assert kinds["LookupTableImportV2"] == "init"
    assert kinds["LookupTableFindV2"] == "input"


def test_minimize_inside_a_loop() -> None:
    def builder() -> None:
        weight = tf.get_variable("weight", [], initializer=tf.ones_initializer(), use_resource=True)

        def body(step: tf.Tensor) -> tf.Tensor:
            train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.square(weight))
            with tf.control_dependencies([train]):
                return step + 1

        tf.while_loop(lambda step: step < 3, body, [0])

    program = of(builder)
    kinds = {op.type: op.phase for op in program.ops.values()}
    assert kinds["ResourceApplyGradientDescent"] is Phase.UPDATE
    assert kinds["Square"] is Phase.FORWARD
    assert len(program.variables["weight"].gradients) == 1
    gradient = program.producer(program.variables["weight"].gradients[0])
    assert gradient.phase is Phase.BACKWARD


def test_a_graph_without_training() -> None:
    def builder() -> None:
        x, _ = batch()
        tf.nn.softmax(dense(x, 3, "out"))

    found = phases(of(builder))
    assert found["Softmax"] == "forward"
    assert "backward" not in found.values() and "update" not in found.values()


def test_slots_belong_to_their_variables() -> None:
    variables = of(mlp_adam).variables
    assert variables["hidden/kernel/Adam"].slot_of == variables["hidden/kernel/Adam_1"].slot_of == "hidden/kernel"
    assert variables["beta1_power"].slot_of is None
    assert variables["global_step"].slot_of is None and not variables["global_step"].trainable
    assert variables["global_step"].updates == ("train",)
    assert variables["hidden/bias"].initial_value == "hidden/bias/Initializer/zeros:0"


def test_slots_of_an_optimizer_written_in_small_ops() -> None:
    variables = build("mlp_tape").variables
    assert variables["hidden_kernel_moment"].slot_of == "hidden/kernel"
    assert variables["out_bias_moment"].slot_of == "out/bias"
    assert all(len(variable.gradients) == 1 for variable in variables.values() if variable.trainable)


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
def test_the_gradient_of_a_table_is_the_values_of_its_slices(resource: bool) -> None:
    variables = of(embedding, resource=resource).variables
    assert variables["table"].gradients == ("gradients/concat:0",)
    assert variables["table/Adam"].slot_of == variables["table/Adam_1"].slot_of == "table"


def test_two_optimizers_have_their_own_gradients() -> None:
    variables = build("gan").variables
    for name, variable in variables.items():
        if variable.trainable:
            scope = "gradients_1/" if name.startswith("g/") else "gradients/"
            assert all(tensor.startswith(scope) for tensor in variable.gradients)


def test_averages_are_no_slots() -> None:
    def builder() -> None:
        x, labels = batch()
        train = tf.train.GradientDescentOptimizer(0.1).minimize(mlp_loss(x, labels))
        with tf.control_dependencies([train]):
            tf.train.ExponentialMovingAverage(0.9).apply(tf.trainable_variables())

    variables = of(builder).variables
    assert variables["hidden/kernel/ExponentialMovingAverage"].slot_of is None
    assert variables["hidden/kernel/ExponentialMovingAverage"].updates


def test_classify_needs_only_names() -> None:
    with new_graph() as graph:
        mlp_adam()
        captured = capture(graph)
        assert phases(classify(captured, trainable_names(graph))) == phases(complete(captured, graph))


def test_an_imported_meta_graph() -> None:
    with new_graph() as graph:
        x, labels = batch()
        tf.train.AdamOptimizer().minimize(mlp_loss(x, labels), name="train")
        tf.train.Saver()
        program = complete(capture(graph), graph)
        exported = tf.train.export_meta_graph(graph=graph)
    with new_graph() as imported:
        tf.train.import_meta_graph(exported, import_scope="again")
        again = complete(capture(imported), imported)
    assert verify(again) == []
    for name, op in program.ops.items():
        if op.phase in (Phase.BACKWARD, Phase.UPDATE, Phase.FORWARD):
            assert again.ops[f"again/{name}"].phase is op.phase, name
    assert again.variables["again/out/kernel"].gradients == tuple(
        f"again/{tensor}" for tensor in program.variables["out/kernel"].gradients
    )
