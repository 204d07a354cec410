"""
``InferenceSession``: ONNX Runtime's, with the RoI nodes of a model computed by roicy.

A model is read, RoI nodes and known patterns of nodes become steps, the graph between them is cut
into segments, and ONNX Runtime gets a session for each segment.  Values go from one to the other
as OrtValue and array of the same memory.
"""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]

from ... import _threads
from ._model import Graph, inlined, load, serialized, warn_of_bodies
from ._patterns import pasting_loops, pyramids
from ._segments import Segment, Stage, cut, model_of, scalars_of, with_views
from ._steps import Step, roi_steps

SHARED_BYTES = 1 << 10  # an initializer of several segments is kept once from this size on
ELEMENTS = {name.lower(): number for name, number in onnx.TensorProto.DataType.items()}


class NodeArg(NamedTuple):
    """An input or output of a model, as ONNX Runtime describes it."""

    name: str
    type: str
    shape: list[Any]


class ModelMetadata(NamedTuple):
    """What a model says of itself, as ONNX Runtime names it."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]

    @classmethod
    def of(cls, model: Any) -> ModelMetadata:
        return cls(
            model.producer_name, model.graph.name, model.domain, model.doc_string,
            model.graph.doc_string, model.model_version,
            {one.key: one.value for one in model.metadata_props},
        )  # fmt: skip


def _type_string(proto: Any) -> str:
    if proto.HasField("tensor_type"):
        name = onnx.TensorProto.DataType.Name(proto.tensor_type.elem_type).lower()
        return f"tensor({name})"
    if proto.HasField("sequence_type"):
        return f"seq({_type_string(proto.sequence_type.elem_type)})"
    return str(proto.WhichOneof("value"))


def _shape_list(proto: Any) -> list[Any]:
    dims = proto.tensor_type.shape.dim if proto.HasField("tensor_type") else []
    return [dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None) for dim in dims]


def _type_proto(spelled: str, shape: Sequence[Any] | None) -> Any:
    """Return a TypeProto from ONNX Runtime's name of a type, with the extents that are known."""
    kind, _, inner = spelled.removesuffix(")").partition("(")
    proto = onnx.TypeProto()
    if kind == "seq":
        proto.sequence_type.elem_type.CopyFrom(_type_proto(inner, None))
    elif kind == "tensor" and inner in ELEMENTS:
        proto.tensor_type.elem_type = ELEMENTS[inner]
        if shape is not None:
            proto.tensor_type.shape.SetInParent()
        for extent in shape or ():
            dim = proto.tensor_type.shape.dim.add()
            if isinstance(extent, int):
                dim.dim_value = extent
    else:
        raise ValueError(f"model: a value of type {spelled} lies between segments")
    return proto


def _node_arg(value: Any) -> NodeArg:
    return NodeArg(value.name, _type_string(value.type), _shape_list(value.type))


def _find(graph: Graph) -> list[Stage]:
    """Find the steps of a graph, and cut it between them; no stages if there are none."""
    single = roi_steps(graph)
    steps: dict[str, Step] = dict(single)
    steps.update(pyramids(graph, single))
    steps.update(pasting_loops(graph, _run_alone))
    return cut(graph, with_views(graph, steps)) if steps else []


class _Part(NamedTuple):
    """
    ONNX Runtime's session of a segment.

    Attributes
    ----------
    inputs, outputs, constants : as those of the segment
    kinds : how many nodes there are of each operator
    """

    session: Any
    inputs: list[str]
    outputs: list[str]
    constants: list[str]
    kinds: dict[str, int]

    @classmethod
    def of(cls, segment: Segment, session: Any) -> _Part:
        kinds: dict[str, int] = {}
        for node in segment.nodes:
            kinds[node.op_type] = kinds.get(node.op_type, 0) + 1
        return cls(session, segment.inputs, segment.outputs, segment.constants, kinds)


class InferenceSession:
    """
    ONNX Runtime's InferenceSession, with RoI nodes computed by roicy.

    Nodes that ONNX Runtime lacks are computed too.  A pyramid of RoiAlign nodes, as torchvision
    exports it, becomes one call, and so does the Loop that pastes masks.  RoI nodes in bodies of
    If and Loop are left to ONNX Runtime, with a warning; a model without RoI nodes is as well,
    and that is said once.

    Parameters
    ----------
    path_or_bytes : path, bytes or onnx.ModelProto
        The model; its external data lie beside the file.
    sess_options : onnxruntime.SessionOptions, optional
        Of the sessions of all segments.
    providers, provider_options : optional
        As for ``onnxruntime.InferenceSession``; by default ``["CPUExecutionProvider"]``.
    num_threads : int, optional
        Threads of roicy, at most; by default `intra_op_num_threads` of `sess_options` where it
        is set, else :func:`roicy.get_num_threads`.
    **options :
        Passed on to ``onnxruntime.InferenceSession``.

    Raises
    ------
    TypeError, ValueError
        If the model is no ONNX model, or a RoI node has an attribute that is unknown or wrong, or
        is of an opset that is not known.  The message names the node and the attribute.

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
        given = onnxruntime.SessionOptions() if sess_options is None else sess_options
        if num_threads is not None:
            _threads.check(num_threads)
        self._num_threads = num_threads or given.intra_op_num_threads or None
        self._options = {
            "providers": providers or ["CPUExecutionProvider"],
            "provider_options": provider_options,
            **options,
        }
        self._given = given
        self._shared: dict[str, Any] = {}
        self._shared_names: dict[str, str] = {}
        self._constants: dict[str, np.ndarray] = {}
        self._parts: list[tuple[_Part | None, list[Step]]] = []
        self._whole: Any = None
        # The graph holds the data of initializers, of which ONNX Runtime has copies in the end.
        # So nothing of it is kept.
        proto, folder = load(path_or_bytes)
        graph = Graph(inlined(proto), folder)
        self.in_bodies = warn_of_bodies(graph)
        stages = _find(graph)
        if any(stage.steps for stage in stages):
            self._start(graph, stages)
        else:
            if not self.in_bodies:
                warnings.warn(
                    "the model has no RoI nodes: ONNX Runtime runs it alone", stacklevel=2
                )
            is_path = graph.folder is not None
            source = os.fspath(path_or_bytes) if is_path else serialized(graph.model)
            self._whole = onnxruntime.InferenceSession(source, given, **self._options)
        self._outputs = [value.name for value in graph.proto.output]
        for name in filter(graph.is_constant, self._outputs):
            self._constants[name] = graph.tensor(name)
        self._last_use = self._find_last_uses()
        self._input_args = [_node_arg(value) for value in graph.inputs]
        self._output_args = [_node_arg(value) for value in graph.proto.output]
        self._metadata = ModelMetadata.of(proto)

    def _start(self, graph: Graph, stages: list[Stage]) -> None:
        """Make the sessions of all segments."""
        if graph.folder is not None:
            self._given.add_session_config_entry(
                "session.model_external_initializers_file_folder_path", graph.folder
            )
        self._share_initializers(graph, stages)
        types = {value.name: value.type for value in graph.inputs}
        scalars = scalars_of(graph)
        for stage in stages:
            self._parts.append((self._make(graph, stage, types, scalars), stage.steps))

    def _share_initializers(self, graph: Graph, stages: list[Stage]) -> None:
        """
        Have one OrtValue for each larger initializer that several segments read.

        External data are none of them, since ONNX Runtime maps their file.  The options know these
        tensors by names that no other model has, since they may be used for another one: they
        would give it tensors of the same name, even if those are gone.
        """
        counts: dict[str, int] = {}
        for segment, _ in stages:
            for name in segment.constants if segment else ():
                counts[name] = counts.get(name, 0) + 1
        for name, count in counts.items():
            if count > 1 and graph.initializers[name].ByteSize() >= SHARED_BYTES:
                array = np.ascontiguousarray(graph.tensor(name))
                self._shared[name] = onnxruntime.OrtValue.ortvalue_from_numpy(array)
                self._shared_names[name] = f"{name} {uuid.uuid4()}"
                self._given.add_initializer(self._shared_names[name], self._shared[name])

    def _make(
        self, graph: Graph, stage: Stage, types: dict[str, Any], scalars: set[str]
    ) -> _Part | None:
        """Make the session of a segment, and learn the types of what the stage gives."""
        part = None
        if stage.segment is not None:
            model = serialized(model_of(graph, stage.segment, types, self._shared_names))
            session = onnxruntime.InferenceSession(model, self._given, **self._options)
            if session.get_providers() == ["CPUExecutionProvider"]:
                # They are kept for starting anew on the CPU where another provider has failed.
                session._model_bytes = None
            part = _Part.of(stage.segment, session)
            for value in session.get_outputs():
                is_known = bool(value.shape) or value.name in scalars
                types[value.name] = _type_proto(value.type, value.shape if is_known else None)
        for step in stage.steps:
            for name in step.inputs:
                if graph.is_constant(name):
                    self._constants[name] = graph.tensor(name)
            of_inputs = [self._type_of(name, types) for name in step.inputs]
            types[step.output] = _type_proto(step.type_of(of_inputs), step.shape())
        return part

    def _type_of(self, name: str, types: dict[str, Any]) -> str:
        if name in types:
            return _type_string(types[name])
        element = onnx.helper.np_dtype_to_tensor_dtype(self._constants[name].dtype)
        return f"tensor({onnx.TensorProto.DataType.Name(element).lower()})"

    def _find_last_uses(self) -> list[set[str]]:
        """Return the values that nobody reads after each part."""
        seen, last = set(self._outputs), []
        for part, steps in reversed(self._parts):
            names = {name for step in steps for name in step.inputs}
            names |= set(part.inputs) if part else set()
            last.append(names - seen)
            seen |= names
        return last[::-1]

    def get_inputs(self) -> list[NodeArg]:
        """Return name, type and shape of each input."""
        return list(self._input_args)

    def get_outputs(self) -> list[NodeArg]:
        """Return name, type and shape of each output."""
        return list(self._output_args)

    def get_providers(self) -> list[str]:
        """Return the execution providers of ONNX Runtime's sessions."""
        sessions = [part.session for part, _ in self._parts if part] or [self._whole]
        return list(sessions[0].get_providers()) if sessions[0] else []

    def get_modelmeta(self) -> ModelMetadata:
        """Return what the model says of itself."""
        return self._metadata

    def get_session_options(self) -> Any:
        """Return the options of ONNX Runtime's sessions."""
        return self._given

    def parts(self) -> list[tuple[_Part | None, list[Step]]]:
        """Return ONNX Runtime's part of each stage, or None, and the steps after it."""
        return list(self._parts)

    def sessions(self) -> list[Any]:
        """Return ONNX Runtime's session of each segment, in their order."""
        return [part.session for part, _ in self._parts if part] or [self._whole]

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:  # fmt: skip
        """
        Compute outputs of the model.

        Parameters
        ----------
        output_names : sequence of str, or None
            Which outputs; None are all of them.
        input_feed : dict
            An array, or OrtValue, for each input.
        run_options : onnxruntime.RunOptions, optional
            Of the run of each segment.

        Returns
        -------
        list
            The outputs, arrays for tensors.

        Raises
        ------
        ValueError
            If an input is missing, or a name is not one of the model's.
        """
        if self._whole is not None:
            return list(self._whole.run(output_names, dict(input_feed), run_options))
        names = self._names(output_names, input_feed)
        values = self._compute(names, input_feed, run_options)
        return [_as_array(values[name]) for name in names]

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:  # fmt: skip
        """Compute outputs as :meth:`run` does, and return them as OrtValue."""
        if self._whole is not None:
            feed = {name: _as_ort(value) for name, value in input_dict_ort_values.items()}
            names = list(output_names or self._outputs)
            return list(self._whole.run_with_ort_values(names, feed, run_options))
        names = self._names(output_names, input_dict_ort_values)
        values = self._compute(names, input_dict_ort_values, run_options)
        return [_as_ort(values[name]) for name in names]

    def io_binding(self) -> Binding:
        """Return a holder of inputs and outputs for :meth:`run_with_iobinding`."""
        return Binding(self)

    def run_with_iobinding(self, iobinding: Binding, run_options: Any = None) -> None:
        """Compute the outputs that are bound, from the inputs that are bound."""
        iobinding.compute(run_options)

    def _names(self, names: Sequence[str] | None, feed: Mapping[str, Any]) -> list[str]:
        wanted = self._outputs if names is None or not len(names) else list(names)
        for name in wanted:
            if name not in self._outputs:
                raise ValueError(f"output_names: {name!r}, expected any of {self._outputs}")
        inputs = [value.name for value in self._input_args]
        for name in inputs:
            if name not in feed:
                raise ValueError(f"input_feed: {name!r} is missing, expected {inputs}")
        for name in feed:
            if name not in inputs:
                raise ValueError(f"input_feed: {name!r}, expected {inputs}")
        return wanted

    def _compute(self, wanted: list[str], feed: Mapping[str, Any], run_options: Any) -> Any:
        values: dict[str, Any] = {**self._constants, **feed}
        threads = _threads.resolve(self._num_threads)
        for (part, steps), unused in zip(self._parts, self._last_use, strict=True):
            if part is not None:
                inputs = {name: _as_ort(values[name]) for name in part.inputs}
                outputs = part.session.run_with_ort_values(part.outputs, inputs, run_options)
                values.update(zip(part.outputs, outputs, strict=True))
            for step in steps:
                arrays = [_as_array(values[name]) for name in step.inputs]
                values[step.output] = step.run(arrays, threads)
            for name in unused:
                values.pop(name, None)
        return values


class Binding:
    """Inputs and outputs of a session that are bound beforehand; they are on the CPU."""

    def __init__(self, session: InferenceSession):
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}
        self._results: list[Any] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Bind an array to an input."""
        self._inputs[name] = arr_on_cpu

    def bind_ortvalue_input(self, name: str, ortvalue: Any) -> None:
        """Bind an OrtValue to an input."""
        self._inputs[name] = ortvalue

    def bind_output(self, name: str, device_type: str = "cpu", **_: Any) -> None:
        """Ask for an output, whose memory the run provides."""
        if device_type != "cpu":
            raise ValueError(f"device_type: {device_type!r}, expected 'cpu'")
        self._outputs[name] = None

    def bind_ortvalue_output(self, name: str, ortvalue: Any) -> None:
        """Ask for an output, which is copied to this OrtValue."""
        self._outputs[name] = ortvalue

    def compute(self, run_options: Any = None) -> None:
        """Run the session."""
        self._results = self._session.run_with_ort_values(
            list(self._outputs), self._inputs, run_options
        )
        for bound, result in zip(self._outputs.values(), self._results, strict=True):
            if bound is not None:
                bound.update_inplace(result.numpy())

    def get_outputs(self) -> list[Any]:
        """Return the outputs of the last run as OrtValue."""
        bound = self._outputs.values()
        pairs = zip(bound, self._results, strict=True)
        return [result if given is None else given for given, result in pairs]

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        """Return the outputs of the last run as arrays."""
        return [value.numpy() for value in self.get_outputs()]


def _as_array(value: Any) -> Any:
    """Return the array of an OrtValue, of the same memory."""
    if isinstance(value, onnxruntime.OrtValue) and value.is_tensor():
        return value.numpy()
    return value


def _as_ort(value: Any) -> Any:
    """Return the OrtValue of an array, of the same memory where it is contiguous."""
    if not isinstance(value, np.ndarray):
        return value
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value))


def _run_alone(model: bytes, feed: Mapping[str, np.ndarray]) -> Any:
    """Run a small model, whose errors are expected and not logged."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (output,) = session.run(None, dict(feed))
    return output


def _most_of(kinds: dict[str, int], most: int = 8) -> str:
    """Return what there is most of, in a line."""
    shown = {kind: count for kind, count in kinds.items() if kind != "Constant"}
    order = sorted(shown.items(), key=lambda pair: -pair[1])
    more = ", ..." if len(order) > most else ""
    return ", ".join(f"{count} {kind}" for kind, count in order[:most]) + more


def describe(session: InferenceSession) -> Iterable[str]:
    """Yield lines that say what was found in a model and how it was cut."""
    for number, (part, steps) in enumerate(session.parts()):
        if part is not None:
            yield (
                f"segment {number}, by ONNX Runtime: {sum(part.kinds.values())} nodes "
                f"({len(part.inputs)} values in, {len(part.outputs)} out)"
            )
            yield f"    {_most_of(part.kinds)}"
        for step in steps:
            yield f"roicy: {step.title}"
    for one in session.in_bodies:
        yield f"left to ONNX Runtime: {one}"
    if not session.parts():
        yield "no RoI nodes: ONNX Runtime runs the model alone"
