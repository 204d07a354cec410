"""``InferenceSession``: ONNX Runtime's, with RoI nodes computed by roicy."""

from __future__ import annotations

import os
from typing import Any

from onnxruntime import SessionOptions  # type: ignore[import-untyped]
from onnxruntime.capi import onnxruntime_inference_collection as collection
from onnxruntime.capi import onnxruntime_pybind11_state as state

from ...onnxruntime import get_ep_name, options_of, use

CPU = "CPUExecutionProvider"
EMPTY = b"\x08\x08:\x03\x12\x01gB\x04\n\x00\x10\x10"  # a model without nodes


def _copy(options: Any) -> Any:
    """Return a copy of options, but for libraries of custom operators and providers.

    ONNX Runtime copies options for each session, and gives the copy.  If they ask for a profile,
    the session has begun one.
    """
    session = state.InferenceSession(options, EMPTY, False, False)
    copy = session.session_options
    if options.enable_profiling:
        os.remove(session.end_profiling())
    return copy


class InferenceSession(collection.InferenceSession):  # type: ignore[misc]
    """ONNX Runtime's InferenceSession, whose RoI nodes are computed by roicy.

    It is a session of ONNX Runtime with the provider of :mod:`roicy.onnxruntime`.

    Parameters
    ----------
    path_or_bytes : path, bytes or onnx.ModelProto
        The model.
    sess_options : onnxruntime.SessionOptions, optional
        Options of the session, which are copied.  Options that have providers are taken as they
        are: see :func:`roicy.onnxruntime.use`.
    providers, provider_options : optional
        Further providers, as ``onnxruntime.InferenceSession`` takes them.
    num_threads : int, optional
        Threads of roicy, at most; by default ``intra_op_num_threads`` of `sess_options` where it
        is set, else :func:`roicy.get_num_threads`.
    **options :
        Passed on to ``onnxruntime.InferenceSession``.

    Raises
    ------
    ImportError
        If ONNX Runtime is older than 1.24.
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
        given = sess_options
        if given is not None and given.has_providers():
            super().__init__(path_or_bytes, given, providers, provider_options, **options)
            return
        copy = use(SessionOptions() if given is None else _copy(given), num_threads)
        names = list(providers or [])
        pairs = zip(names, provider_options or [{}] * len(names), strict=True)
        others = [one if isinstance(one, tuple) else (one, more) for one, more in pairs]
        for name, more in others:
            if name != CPU:
                copy.add_provider(name, {key: str(value) for key, value in more.items()})
        try:
            super().__init__(path_or_bytes, copy, **options)
        except Exception as error:
            # The caller's options may have libraries of custom operators.  They are left as they
            # are where ONNX Runtime takes plugins by their names.
            if given is None or get_ep_name() not in state.get_available_providers():
                raise
            named = [(get_ep_name(), options_of(given, num_threads)), *(others or [CPU])]
            try:
                super().__init__(path_or_bytes, given, named, **options)
            except Exception:
                raise error from None
