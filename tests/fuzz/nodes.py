"""Nodes of ONNX models, which ONNX Runtime runs with roicy."""

from __future__ import annotations

import functools
import warnings

import numpy as np

try:
    import onnx.helper
    import onnxruntime
except ImportError:
    onnxruntime = None

from roicy.compat.onnx._ops import TABLE

from .judged import ISAS, bits, using
from .strings import COORDINATES, FINITE, values

NODES = [(*name, version) for name, versions in TABLE.items() for version in versions]
# What attributes are; others keep their defaults.
CHOICES = {
    "output_height": (1, 3), "output_width": (2,), "pooled_shape": ([3, 2], [1, 2]),
    "output_size": (2,), "sampling_ratio": (0, 2), "aligned": (0, 1), "clockwise": (0, 1),
    "products": (0, 1), "scales": ([0.5, 0.25],), "pyramid_scales": ([2, 4],), "padding": (1, 0),
    "coordinate_transformation_mode": ("half_pixel", "output_half_pixel"),
    "rule": ("torchvision", "detectron2", "mmdet"), "extrapolation_value": (0.0, 1.5),
}  # fmt: skip
MODES = {"avg": ("avg", "max"), "bilinear": ("bilinear", "nearest")}
SCALES = {float: (0.5,), list: ([0.5], [0.5, 0.25])}
TYPES = {"f": "FLOAT", "d": "DOUBLE", "i": "INT32", "l": "INT64"}


def attributes_of(data, operator):
    """Return attributes of a node."""
    drawn = {}
    for name, default in operator.attributes.items():
        choices = CHOICES.get(name)
        choices = MODES[default] if name == "mode" else choices
        choices = SCALES[type(default)] if name == "spatial_scale" else choices
        if choices is not None:
            drawn[name] = data.of(choices)
    return drawn


def numbers(data, *shape):
    """Return an array of coordinates."""
    drawn = [data.ordinary(COORDINATES, FINITE) for _ in range(int(np.prod(shape)))]
    return np.array(drawn, np.float64).reshape(shape)


def inputs_of(data, name, dtype):
    """Return the inputs of a node, and which of them have an entry for each box."""
    n, k, c = data.of((1, 2, 3)), data.below(6), 1 + data.below(20)
    c = 6 * (1 + c % 3) if name.startswith("PS") else c
    x = values(data, (n, c, 1 + data.below(30), 1 + data.below(30)), dtype)
    images = [data.ordinary((data.below(n), -1, n, 2**31, -(2**63)), 1) for _ in range(k)]
    images = np.array(images, np.float64).reshape(k, 1)
    with np.errstate(all="ignore"):
        corners = numbers(data, k, 4).astype(dtype)
        rows = np.hstack([images, corners]).astype(dtype)
        if name.endswith("Rotated"):
            return [x, np.hstack([rows, numbers(data, k, 1)]).astype(dtype)], (1,)
        if name == "RoiAlign":
            return [x, corners, images[:, 0].astype(np.int64)], (1, 2)
        if name == "CropAndResize":
            size = np.array([data.of((2, 0, 5)), 3], np.int32)
            return [x, corners / dtype.type(32), images[:, 0].astype(np.int32), size], (1, 2)
    if name == "PasteMasks":
        extents = data.ordinary(([20, 30], [0, 4], [-1, 5], [2**40, 1]), 2)
        masks = values(data, (k, 1, 1 + data.below(9), 1 + data.below(9)), dtype)
        return [masks, corners, np.array(extents)], (0, 1)
    maps = [x, np.ascontiguousarray(x[:, :, ::2, ::2])]
    if name.endswith("FeatureExtractor"):
        return [corners, *(level[:1] for level in maps)], (0,)
    return ([rows, *maps], (0,)) if name == "MultiScaleRoIAlign" else ([x, rows], (1,))


@functools.lru_cache(256)
def session_of(kind, attributes, types, threads):
    """Return a session of a model that is one node, computed by roicy, or why there is none."""
    import roicy.onnxruntime

    domain, name, version = kind
    names = [f"x{i}" for i in range(len(types))]
    node = onnx.helper.make_node(name, names, ["y"], domain=domain, **dict(attributes))
    known = [
        onnx.helper.make_tensor_value_info(
            name, getattr(onnx.TensorProto, TYPES[char]), [f"{name}_{i}" for i in range(rank)]
        )
        for name, (char, rank) in zip(names, types, strict=True)
    ]
    output = onnx.helper.make_tensor_value_info("y", known[0].type.tensor_type.elem_type, None)
    opsets = [onnx.helper.make_opsetid(domain, version if domain or version > 1 else 16)]
    opsets += [onnx.helper.make_opsetid("", 16)] if domain else []
    graph = onnx.helper.make_graph([node], "pool", known, [output])
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    roicy.onnxruntime.use(options, num_threads=threads)
    return ended(lambda: onnxruntime.InferenceSession(model.SerializeToString(), options))


def ended(call):
    """Return what a call of ONNX Runtime gives, or its error."""
    try:
        return call()
    except Exception as error:  # ONNX Runtime has no class of its own for all
        assert type(error).__module__.startswith("onnxruntime"), error
        return error


def found_by(session, arrays):
    """Return what a session gives, or its error."""
    given = {value.name: array for value, array in zip(session.get_inputs(), arrays, strict=True)}
    return ended(lambda: session.run(None, given)[0])


def node_call(data) -> str:
    """Run a node in ONNX Runtime; it ends as the operator of roicy does."""
    if onnxruntime is None:
        return "nodes: no ONNX Runtime"
    kind, dtype = data.of(NODES), np.dtype(data.of("fd"))
    domain, name, version = kind
    operator = TABLE[domain, name][version]
    attributes = attributes_of(data, operator)
    arrays, of_boxes = inputs_of(data, name, dtype)
    types = tuple((array.dtype.char, array.ndim) for array in arrays)
    hashable = tuple((key, tuple(v) if type(v) is list else v) for key, v in attributes.items())
    sessions = [session_of(kind, hashable, types, threads) for threads in (1, 2)]
    given = operator.checked(attributes)
    try:
        compute = operator.prepare(**given)
    except (TypeError, ValueError) as error:
        assert all(isinstance(session, Exception) for session in sessions), (kind, error)
        return f"{name}: {type(error).__name__} of attributes"
    end = "value"
    for isa in ISAS:
        with using(isa), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = None
            try:
                shape = operator.shape(arrays, given)
                expected = np.zeros(shape, dtype)
                compute(*arrays, out=expected, num_threads=1)
            except (TypeError, ValueError, MemoryError) as error:
                expected = error
            found = [found_by(session, arrays) for session in sessions]
            if isinstance(expected, Exception):
                assert all(isinstance(one, Exception) for one in found), (found, expected)
                end = type(expected).__name__
                continue
            assert all(bits(one) == bits(expected) for one in found), (kind, found, expected)
            k = len(expected) // 2
            if len(expected):
                alone = [a[k : k + 1] if i in of_boxes else a for i, a in enumerate(arrays)]
                assert bits(found_by(sessions[0], alone)) == bits(expected[k : k + 1])
    return f"{name}: {end}"
