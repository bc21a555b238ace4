"""Products that contract dims."""

from __future__ import annotations

from tests.sharding.rows import Row

MATMUL = [
    Row("MatMul", lambda tf, i: tf.matmul(i.x, i.square + 0.3)),
    Row("MatMul: transposed weights", lambda tf, i: tf.matmul(i.x, i.square + 0.3, transpose_b=True)),
    Row("MatMul: transposed batch", lambda tf, i: tf.matmul(i.square, i.x, transpose_b=True)),
    Row("MatMul: batch on dim 1", lambda tf, i: tf.matmul(i.square + 0.1, tf.transpose(i.x))),
    Row("MatMul: over the batch", lambda tf, i: tf.matmul(i.x, i.y, transpose_a=True)),
    Row("MatMul: over the batch, turned", lambda tf, i: tf.matmul(tf.transpose(i.x), i.y)),
    Row(
        "MatMul: over the batch, both turned",
        lambda tf, i: tf.matmul(i.x, tf.transpose(i.y), transpose_a=True, transpose_b=True),
    ),
    Row(
        "MatMul: by a whole over the batch", lambda tf, i: tf.matmul(i.x, tf.ones([i.b, 3]) * i.w[0], transpose_a=True)
    ),
    Row("MatMul: every pair of samples", lambda tf, i: tf.matmul(i.x, i.y, transpose_b=True)),
    Row("MatMul: similarity of a batch with itself", lambda tf, i: tf.matmul(i.x, i.x, transpose_b=True)),
    Row("MatMul: a sum over the batch", lambda tf, i: tf.matmul(tf.reduce_sum(i.x, 0, keepdims=True), i.square)),
    Row(
        "MatMul: two sums",
        lambda tf, i: tf.matmul(tf.matmul(i.x, i.y, transpose_a=True), tf.matmul(i.y, i.x, transpose_a=True)),
    ),
    Row("MatMul: of time and batch", lambda tf, i: tf.matmul(tf.reshape(i.x, [-1, 4]), i.square), sample=(3, 4)),
    Row("BatchMatMulV2", lambda tf, i: tf.matmul(i.x, i.y, transpose_b=True), sample=(3, 4)),
    Row("BatchMatMulV2: by weights", lambda tf, i: tf.matmul(i.x, tf.ones([2, 4, 5]) * 0.3), sample=(2, 3, 4)),
    Row("BatchMatMulV2: by a matrix", lambda tf, i: tf.matmul(i.x, i.square + 0.2), sample=(3, 4)),
    Row("BatchMatMulV2: adjoint", lambda tf, i: tf.matmul(i.x, i.y, adjoint_a=True), sample=(3, 4)),
    Row(
        "BatchMatMulV2: batch as a row",
        lambda tf, i: tf.matmul(tf.transpose(i.x, [1, 0, 2]), i.square + tf.zeros([3, 4, 4])),
        sample=(3, 4),
    ),
    Row(
        "BatchMatMulV2: over the batch",
        lambda tf, i: tf.matmul(tf.transpose(i.x, [1, 0, 2]), tf.transpose(i.y, [1, 0, 2]), transpose_a=True),
        sample=(3, 4),
    ),
    Row("BatchMatMul", lambda tf, i: tf.raw_ops.BatchMatMul(x=i.x, y=i.y, adj_y=True), sample=(3, 4)),
    Row(
        "BatchMatMulV3",
        lambda tf, i: tf.raw_ops.BatchMatMulV3(x=i.x, y=i.y, Tout=tf.float32, adj_y=True),
        sample=(3, 4),
        gradient=False,
    ),
    Row("MatMul: dense layer on rank 3", lambda tf, i: tf.tensordot(i.x, i.square + 0.1, [[2], [0]]), sample=(3, 4)),
    Row("MatMul: tensordot over the batch", lambda tf, i: tf.tensordot(i.x, i.y, [[0], [0]])),
    Row(
        "MatMul: attention",
        lambda tf, i: tf.matmul(tf.nn.softmax(tf.matmul(i.x, i.y, transpose_b=True)), i.y),
        sample=(3, 4),
    ),
]

EQUATIONS = (
    ("bi,ij->bj", "w"), ("bi,ij->jb", "w"), ("bi,ji->bj", "w"), ("bi,bi->b", "y"), ("bi,bj->bij", "y"),
    ("bi,bj->ij", "y"), ("bi,bi->", "y"), ("bi,ci->bc", "y"), ("bi,bi->i", "y"), ("...i,ij->...j", "w"),
)  # fmt: skip

DEEP_EQUATIONS = (
    ("bti,ij->btj", "w"), ("bti,bsi->bts", "y"), ("bti,bti->bt", "y"), ("bti,bsi->ts", "y"), ("bti,ij->bjt", "w"),
    ("tbi,tbj->tij", "y"), ("b...i,ij->b...j", "w"),
)  # fmt: skip

EINSUM = [
    *(
        Row(f"Einsum: {e}", lambda tf, i, e=e, o=o: tf.einsum(e, i.x, i.square + 0.2 if o == "w" else i.y))
        for e, o in EQUATIONS
    ),
    *(
        Row(
            f"Einsum: deep {e}",
            lambda tf, i, e=e, o=o: tf.einsum(e, i.x, i.square + 0.2 if o == "w" else i.y),
            sample=(3, 4),
        )
        for e, o in DEEP_EQUATIONS
    ),
    Row("Einsum: sum", lambda tf, i: tf.einsum("bi->i", i.x)),
    Row("Einsum: turned", lambda tf, i: tf.einsum("bi->ib", i.x)),
    Row("Einsum: sum of rows", lambda tf, i: tf.einsum("bi->b", i.x)),
    Row("Einsum: trace", lambda tf, i: tf.einsum("bii->b", i.x), sample=(4, 4), whole=("Einsum",)),
]

TABLES = {"products": MATMUL, "einsum": EINSUM}
