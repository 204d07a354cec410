"""``InferenceSession``: ONNX Runtime's, with RoI nodes computed by roicy."""

from __future__ import annotations

import functools
from typing import Any

from onnxruntime.capi import (  # type: ignore[import-untyped]
    onnxruntime_inference_collection as collection,
)

from ...onnxruntime._sessions import with_provider


class InferenceSession(collection.InferenceSession):  # type: ignore[misc]
    """ONNX Runtime's InferenceSession, whose RoI nodes are computed by roicy.

    It is a session of ONNX Runtime with the provider of :mod:`roicy.onnxruntime`.

    Parameters
    ----------
    path_or_bytes : path, bytes or onnx.ModelProto
        The model.
    sess_options : onnxruntime.SessionOptions, optional
        Options of the session, which are not changed.  Options that have providers are taken as
        they are, if `providers` names none: see :func:`roicy.onnxruntime.use`.
    providers, provider_options : optional
        As ``onnxruntime.InferenceSession`` takes them.  roicy's comes first, and may be one of
        them.  Names that ONNX Runtime does not know are left out with a warning.
    num_threads : int, optional
        Nodes take at most so many of the session's own threads, and what is left to Python at
        most so many of OpenMP's; by default ``intra_op_num_threads`` of `sess_options` where it
        is set, else :func:`roicy.get_num_threads`.
    **options :
        Passed on to ``onnxruntime.InferenceSession``.

    Raises
    ------
    ImportError
        If ONNX Runtime is older than 1.24.
    ValueError
        If `num_threads` is another number than `providers` gives roicy's.
    Exception
        As ``onnxruntime.InferenceSession``; where a RoI node has a wrong attribute, too.

    Examples
    --------
    >>> import numpy as np, onnx.parser
    >>> from roicy.compat.onnx import InferenceSession
    >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 22]>
    ... pooled (float[N, C, H, W] X, float[K, 4] rois, int64[K] images) => (float[K, C, 1, 1] Y)
    ... {Z = Relu (X)  P = RoiAlign <sampling_ratio = 1> (Z, rois, images)  Y = Neg (P)}''')
    >>> session = InferenceSession(model.SerializeToString())
    >>> X = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> inputs = {"X": X, "rois": np.array([[0, 0, 2, 2]], np.float32), "images": np.array([0])}
    >>> session.run(None, inputs)[0].ravel()
    array([-2.5], dtype=float32)
    """

    def __init__(
        self, path_or_bytes: Any, sess_options: Any = None, providers: Any = None,
        provider_options: Any = None, *, num_threads: int | None = None, **options: Any,
    ):  # fmt: skip
        if hasattr(path_or_bytes, "SerializeToString"):
            path_or_bytes = path_or_bytes.SerializeToString()
        if isinstance(path_or_bytes, (bytearray, memoryview)):
            path_or_bytes = bytes(path_or_bytes)
        options.setdefault("enable_fallback", 0)  # which would be without roicy
        create = functools.partial(super().__init__, path_or_bytes, **options)
        with_provider(create, sess_options, providers, provider_options, num_threads, first=True)
