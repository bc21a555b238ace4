"""Linear algebra on each sample, and the cells that are one op."""

from __future__ import annotations

from typing import Any

from tests.sharding.rows import Inputs, Row

SQUARE = (3, 3)


def _definite(tf: Any, i: Inputs) -> Any:
    return tf.matmul(i.x, i.x, transpose_b=True) + 2.0 * tf.eye(3)


def _similarities(tf: Any, i: Inputs) -> Any:
    return tf.matmul(i.x, i.x, transpose_b=True)


def _square(name: str, build: Any, gradient: bool = True, whole: tuple[str, ...] = ()) -> Row:
    return Row(name, build, SQUARE, whole, gradient, tolerance=1e-4)


def _complex(tf: Any, x: Any) -> Any:
    return tf.complex(x, 0.5 * x)


def _fourier(dims: str, sample: tuple[int, ...]) -> list[Row]:
    """Fourier transforms over the last dims of a sample."""
    suffix = dims.lower()

    def whole(name: str) -> Any:
        return lambda tf, i: tf.abs(getattr(tf.signal, f"{name}{suffix}")(_complex(tf, i.x)))

    return [
        Row(f"FFT{dims}", whole("fft"), sample, tolerance=1e-4),
        Row(f"IFFT{dims}", whole("ifft"), sample, tolerance=1e-4),
        Row(
            f"RFFT{dims}",
            lambda tf, i: tf.abs(getattr(tf.signal, f"rfft{suffix}")(i.x)),
            sample,
            gradient=dims != "3D",  # TensorFlow has none
            tolerance=1e-4,
        ),
        Row(
            f"IRFFT{dims}",
            lambda tf, i: getattr(tf.signal, f"irfft{suffix}")(_complex(tf, i.x)),
            sample,
            gradient=dims != "3D",
            tolerance=1e-4,
        ),
    ]


FOURIER = [*_fourier("", (4,)), *_fourier("2D", (3, 4)), *_fourier("3D", (2, 3, 4))]

LINEAR = [
    _square("MatrixBandPart", lambda tf, i: tf.linalg.band_part(i.x, 0, -1)),
    Row("MatrixDiagV3", lambda tf, i: tf.linalg.diag(i.x)),
    _square("MatrixDiagPartV3", lambda tf, i: tf.linalg.diag_part(i.x)),
    *(Row(f"MatrixDiag{v}: raw", lambda tf, i: tf.raw_ops.MatrixDiag(diagonal=i.x)) for v in ("",)),
    _square("MatrixDiagPart: raw", lambda tf, i: tf.raw_ops.MatrixDiagPart(input=i.x)),
    Row(
        "MatrixDiagV2: raw",
        lambda tf, i: tf.raw_ops.MatrixDiagV2(diagonal=i.x, k=0, num_rows=-1, num_cols=-1, padding_value=0.0),
    ),
    _square("MatrixDiagPartV2: raw", lambda tf, i: tf.raw_ops.MatrixDiagPartV2(input=i.x, k=0, padding_value=0.0)),
    _square("MatrixSetDiag", lambda tf, i: tf.raw_ops.MatrixSetDiag(input=i.x, diagonal=i.y[:, 0])),
    _square("MatrixSetDiagV2", lambda tf, i: tf.raw_ops.MatrixSetDiagV2(input=i.x, diagonal=i.y[:, 0], k=0)),
    _square("MatrixSetDiagV3", lambda tf, i: tf.linalg.set_diag(i.x, i.y[:, 0])),
    Row("Diag", lambda tf, i: tf.diag(tf.reduce_sum(i.x, 0))),
    Row("DiagPart", lambda tf, i: tf.diag_part(tf.matmul(i.x, i.y, transpose_a=True))),
    _square("MatrixInverse", lambda tf, i: tf.linalg.inv(_definite(tf, i))),
    _square("MatrixDeterminant", lambda tf, i: tf.linalg.det(_definite(tf, i))),
    _square("Cholesky", lambda tf, i: tf.linalg.cholesky(_definite(tf, i))),
    _square(
        "MatrixTriangularSolve", lambda tf, i: tf.linalg.triangular_solve(tf.linalg.cholesky(_definite(tf, i)), i.y)
    ),
    _square(
        "MatrixTriangularSolve: one matrix for all",
        lambda tf, i: tf.raw_ops.MatrixTriangularSolve(matrix=tf.expand_dims(i.square, 0), rhs=i.x),
        gradient=False,
    ),
    _square("MatrixSolve", lambda tf, i: tf.linalg.solve(_definite(tf, i), i.y)),
    _square("MatrixInverse: over the batch", lambda tf, i: tf.linalg.inv(tf.reduce_sum(_definite(tf, i), 0))),
    # The batch as a dim of one matrix: similarities of all samples with each other.
    Row("MatrixBandPart: batch by features", lambda tf, i: tf.linalg.band_part(i.x, 1, 1), whole=("MatrixBandPart",)),
    Row("MatrixDiagV3: one value per sample", lambda tf, i: tf.linalg.diag(i.x[:, 0]), whole=("MatrixDiagV3",)),
    Row(
        "MatrixDiagPartV3: batch by batch",
        lambda tf, i: tf.linalg.diag_part(_similarities(tf, i)),
        whole=("MatrixDiagPartV3",),
    ),
    Row(
        "MatrixSetDiagV3: batch by batch",
        lambda tf, i: tf.linalg.set_diag(_similarities(tf, i), i.y[:, 0]),
        whole=("MatrixSetDiagV3",),
    ),
    Row(
        "Cholesky: of a kernel matrix",
        lambda tf, i: tf.linalg.cholesky(_similarities(tf, i) + 9.0 * tf.eye(i.b)),
        whole=("Cholesky",),
        tolerance=1e-4,
    ),
    Row(
        "MatrixInverse: of a kernel matrix",
        lambda tf, i: tf.linalg.inv(_similarities(tf, i) + 9.0 * tf.eye(i.b)),
        whole=("MatrixInverse",),
        tolerance=1e-4,
    ),
    Row(
        "MatrixDeterminant: of a kernel matrix",
        lambda tf, i: tf.linalg.det(0.1 * _similarities(tf, i) + tf.eye(i.b)),
        whole=("MatrixDeterminant",),
        tolerance=1e-4,
    ),
    Row(
        "MatrixInverse: whitening",
        lambda tf, i: tf.matmul(i.x, tf.linalg.inv(tf.matmul(i.x, i.x, transpose_a=True) + tf.eye(4))),
        tolerance=1e-4,
    ),
    _square("ReverseSequence", lambda tf, i: tf.reverse_sequence(i.x, tf.minimum(i.ids, 3), seq_axis=1, batch_axis=0)),
    _square(
        "ReverseSequence: time major",
        lambda tf, i: tf.reverse_sequence(tf.transpose(i.x, [1, 0, 2]), i.ids, seq_axis=0, batch_axis=1),
    ),
]

TABLES = {"linear algebra": LINEAR, "Fourier": FOURIER}
