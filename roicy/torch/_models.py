"""Deformable attention, labels and masks of other projects, computed by roicy.

On CPUs their code calls grid_sample for each level, and enlarges maps to pictures.  Functions have
their code exchanged, and are not exchanged themselves, since some models hold references to them.
Only what is known is touched: a function of a known name that a known module defines, with known
parameters.  Attention must return for a small problem what roicy returns for it.  What makes labels
and masks runs as it is, but interpolate waits for what becomes of its result.
"""

from __future__ import annotations

import inspect
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import torch

from . import _enlarged, _onnx, _patches
from ._attention import deformable_attention


class _Form(NamedTuple):
    """How functions take their arguments.

    parameters : their names
    make : (value, shapes, locations, weights) as of `deformable_attention` -> the arguments
    read : the arguments -> what `deformable_attention` takes, and `points`; or None for what it
        does not compute
    """

    parameters: str
    make: Callable[..., tuple[Any, ...]]
    read: Callable[..., tuple[Any, ...] | None]


def _read(value: Any, shapes: Any, locations: Any, weights: Any) -> Any:
    return value, shapes, locations, weights, None


def _read_flat(value: Any, shapes: Any, locations: Any, weights: Any) -> Any:
    """Read arguments whose levels and points share an axis, with as many points on each level."""
    points = [locations.shape[3] // len(shapes)] * len(shapes)
    return value, shapes, locations, weights, points


def _read_channels_first(value: Any, shapes: Any, locations: Any, weights: Any) -> Any:
    return value.permute(0, 3, 1, 2), shapes, locations, weights, None


def _read_rfdetr(value: Any, shapes: Any, locations: Any, weights: Any, listed: Any = None) -> Any:
    read = _read if locations.dim() == 6 else _read_flat
    shapes = shapes if listed is None else listed
    return read(value.permute(0, 3, 1, 2), shapes, locations, weights)


def _read_forward(
    _: Any, value: Any, __: Any, shapes: Any, ___: Any, locations: Any, weights: Any, ____: Any
) -> Any:
    return value, shapes, locations, weights, None


def _read_points(
    value: Any, shapes: Any, locations: Any, weights: Any, points: Any, method: Any = "default"
) -> Any:
    return (value, shapes, locations, weights, points) if method == "default" else None


_GIVEN = "value value_spatial_shapes sampling_locations attention_weights"
_FORMS = (
    _Form(_GIVEN, lambda v, s, x, w: (v, torch.from_numpy(np.array(s)), x, w), _read),
    _Form(_GIVEN, lambda v, s, x, w: (v, s, x.flatten(3, 4), w.flatten(3)), _read_flat),
    _Form(
        _GIVEN, lambda v, s, x, w: (v.permute(0, 2, 3, 1).contiguous(), s, x, w),
        _read_channels_first,
    ),
    _Form(
        f"{_GIVEN} value_spatial_shapes_hw",
        lambda v, s, x, w: (v.permute(0, 2, 3, 1).contiguous(), None, x, w.flatten(3), s),
        _read_rfdetr,
    ),
    _Form(
        "self value value_spatial_shapes value_spatial_shapes_list level_start_index "
        "sampling_locations attention_weights im2col_step",
        lambda v, s, x, w: (None, v, None, s, None, x, w, 64), _read_forward,
    ),
    _Form(
        f"{_GIVEN} num_points_list method",
        lambda v, s, x, w: (v, s, x.flatten(3, 4), w.flatten(3), [x.shape[4]] * len(s), "default"),
        _read_points,
    ),
)  # fmt: skip
_SHAPES = [(3, 4), (2, 3)]


def _computes(function: Any, form: _Form) -> bool:
    """Whether a function returns what roicy does, for points on two levels and around them."""
    rng = np.random.default_rng(0)
    n, m, d, q, p = 2, 2, 3, 5, 4
    given = (
        torch.from_numpy(rng.standard_normal((n, 18, m, d))), _SHAPES,
        torch.from_numpy(rng.uniform(-0.3, 1.3, (n, q, m, 2, p, 2))),
        torch.from_numpy(rng.standard_normal((n, q, m, 2, p))),
    )  # fmt: skip
    try:
        with torch.no_grad():
            found = function(*form.make(*given))
            return torch.allclose(found, deformable_attention(*given), rtol=0, atol=1e-9)
    except Exception:  # whatever a function raises that takes something else
        return False


# Functions and forms by the number in the code that stands for them.  A call may be under way when
# a context ends, so entries stay.
_exchanged: list[tuple[Callable[..., Any], Any]] = []
# The code that functions had when they were looked at, and what stands for it, or None.
_codes: weakref.WeakKeyDictionary[Any, tuple[Any, Any]] = weakref.WeakKeyDictionary()
_told: weakref.WeakSet[Any] = weakref.WeakSet()  # functions that are left alone, as was logged


def attend(number: int, *given: Any) -> Any:
    """Compute what a function is called for."""
    function, form = _exchanged[number]
    read = None if _onnx.is_exporting() else form.read(*given)
    if read is None or any(one.device.type != "cpu" for one in (read[0], *read[2:4])):
        return function(*given)
    value, shapes, locations, weights, points = read
    # The product of samples and weights has the wider type of both, and autocast samples float32.
    dtype = torch.promote_types(value.dtype, weights.dtype)
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.promote_types(dtype, torch.float32)
    if value.dtype is not dtype:
        value = value.to(dtype)
    weights = weights.reshape(locations.shape[:-1])  # levels and points of some are one axis
    return deformable_attention(value, shapes, locations, weights, points=points)


def defer(number: int, *given: Any, **named: Any) -> Any:
    """Call a function whose enlarged maps may not be needed."""
    original = _exchanged[number][0]
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return original(*given, **named)
    return _enlarged.call(original, *given, **named)


def _is_simple(function: Any) -> bool:
    """Whether all parameters can be given by position, and nothing else is read."""
    code = function.__code__
    names = inspect.signature(function, follow_wrapped=False).parameters
    return len(names) == code.co_argcount - code.co_posonlyargcount and not code.co_freevars


def _form_of(function: Any, original: Any) -> _Form | None:
    """Return the form of a function of attention, if it is known."""
    names = list(inspect.signature(function, follow_wrapped=False).parameters)
    forms = [one for one in _FORMS if _is_simple(function) and one.parameters.split() == names]
    return next((one for one in forms if _computes(original, one)), None)


def _is_deferrable(function: Any) -> bool:
    """Whether a method makes labels or masks of sizes that its caller names."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    return not (code.co_freevars or code.co_posonlyargcount) and (
        (names[:2] == ("self", "outputs") and "target_sizes" in names)
        or names[:3] == ("self", "masks", "original_sizes")
    )


def _code_for(function: Any, name: str) -> Any:
    """Return the code that stands for a function's, or None if it is not known."""
    code = function.__code__
    if function in _codes and _codes[function][0] is code:
        return _codes[function][1]
    original = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    is_attention = name not in POST_PROCESSING
    form = _form_of(function, original) if is_attention else None
    stands = None
    if form is not None or (not is_attention and _is_deferrable(function)):
        takes, passes = _spelt(function)
        source = (
            f"def {code.co_name}({takes}):\n"
            f"    from roicy.torch._models import {'attend' if is_attention else 'defer'} as call\n"
            f"    return call({len(_exchanged)}, {passes})\n"
        )
        module = compile(source, __file__, "exec", dont_inherit=True)
        stands = next(one for one in module.co_consts if isinstance(one, types.CodeType))
        _exchanged.append((original, form))
    _codes[function] = code, stands
    return stands


def _spelt(function: Any) -> tuple[str, str]:
    """Return how a function takes its arguments, and how a call passes them on."""
    code = function.__code__
    rest = list(code.co_varnames[code.co_argcount :])
    positional, named = code.co_varnames[: code.co_argcount], rest[: code.co_kwonlyargcount]
    del rest[: code.co_kwonlyargcount]
    stars = [f"*{rest.pop(0)}"] if code.co_flags & inspect.CO_VARARGS else []
    more = [f"**{rest[0]}"] if code.co_flags & inspect.CO_VARKEYWORDS else []
    bare = ["*"] if named and not stars else []
    takes = [*positional, *stars, *bare, *named, *more]
    return ", ".join(takes), ", ".join([*positional, *stars, *(f"{n}={n}" for n in named), *more])


POST_PROCESSING = (
    "post_process_semantic_segmentation", "post_process_instance_segmentation",
    "post_process_panoptic_segmentation", "post_process_masks",
)  # fmt: skip


class _Models(_patches.Project):
    """A project, with the names of its functions of attention, or of classes that have a method
    `forward` for it, and with the names of methods of any class that make labels or masks.
    """

    def __init__(self, name: str, modules: str, *names: str, methods: tuple[str, ...] = ()):
        super().__init__(name, modules)
        self.names, self.methods = names, methods
        self.before: list[tuple[Any, Any, Any]] = []  # functions, their code, what stands for it

    def _known(self, module: Any) -> Iterator[tuple[str, Any]]:
        """Return what has a known name in a module, and the name."""
        inside = getattr(module, "__dict__", {})
        for name in self.names:
            found = inside.get(name)
            yield name, vars(found).get("forward") if isinstance(found, type) else found
        for own in [one for one in list(inside.values()) if isinstance(one, type)]:
            for method in self.methods if own.__module__ == module.__name__ else ():
                found = vars(own).get(method)
                if inspect.isfunction(found):  # what wraps a method calls its code
                    found = vars(found).get("__wrapped__", found)
                yield f"{own.__name__}.{method}", found

    def patch(self, module: Any) -> None:
        """Patch a module; again, that changes nothing."""
        for name, found in self._known(module):
            if not inspect.isfunction(found) or any(found is one for one, *_ in self.before):
                continue
            is_own = found.__globals__ is module.__dict__
            code = _code_for(found, name.rpartition(".")[2]) if is_own else None
            place = f"{module.__name__}.{name}"
            if code is None:
                if found not in _told:
                    _told.add(found)
                    _patches.log("WARNING", f"{place}: left alone, it is not as roicy knows it")
                continue
            self.before.append((found, found.__code__, code))
            found.__code__ = code
            _patches.log("INFO", f"{place}: by roicy")

    def restore(self) -> None:
        """Undo all of it, but for what others have exchanged since."""
        for function, code, stands in self.before:
            if function.__code__ is stands:
                function.__code__ = code
        self.before.clear()


_NAME = "multi_scale_deformable_attn_pytorch"
_Models(
    "transformers", r"transformers\.models\.\w+\.(modeling|(image|video)_processing)_\w+",
    "MultiScaleDeformableAttention", "multi_scale_deformable_attention",
    "multi_scale_deformable_attention_v2", methods=POST_PROCESSING,
)  # fmt: skip
_Models("mmcv", r"mmcv\.ops\.multi_scale_deform_attn", _NAME)
_Models("groundingdino", r"groundingdino\.models\.GroundingDINO\.ms_deform_attn", _NAME)
_Models("detrex", r"detrex\.layers\.multi_scale_deform_attn", _NAME)
_Models(
    "rfdetr", r"rfdetr\.models\.ops\.functions\.ms_deform_attn_func", "ms_deform_attn_core_pytorch"
)
_Models("ultralytics", r"ultralytics\.nn\.modules\.utils", _NAME)


@_patches.documented("transformers")
def patch_transformers(*, exact: bool = True) -> AbstractContextManager[None]:
    """Have transformers compute deformable attention, labels and masks by roicy on the CPU.

    What its models and processors call is exchanged for the whole process and until the context
    ends, for those that were made before, and for those that are imported meanwhile.  Contexts may
    overlap, in any threads.

    In transformers 5.24 the models with deformable attention are those of Deformable DETR,
    Grounding DINO and MM Grounding DINO, RT-DETR and RT-DETRv2, D-FINE, DEIMv2, RF-DETR, LW-DETR,
    OmDet-Turbo, Mask2Former, OneFormer, and PP-DocLayout V2, V3 and V4.  The method "discrete" of
    RT-DETRv2 stays as it is.

    Of processors the methods `post_process_semantic_segmentation`,
    `post_process_instance_segmentation`, `post_process_panoptic_segmentation` and
    `post_process_masks` run as they are, but maps are enlarged to pictures only where their numbers
    are needed.  The page "Masks and labels" lists the classes, and what stays with PyTorch.

    Parameters
    ----------
    exact : bool, optional
        Whether PyTorch enlarges what it rounds otherwise than roicy, so that labels and masks are
        its own.  With False roicy takes maps of float16, bfloat16 and float64, and of any strides.
        A label may then differ where two classes are as near as PyTorch rounds.  That holds for all
        threads while such a context is open.

    Examples
    --------
    ::

        model = transformers.DeformableDetrForObjectDetection.from_pretrained(name).eval()
        with roicy.torch.patch_transformers():
            outputs = model(**inputs)
    """
    return _patches.patched("transformers", exact)


@_patches.documented("mmcv")
def patch_mmcv() -> AbstractContextManager[None]:
    """Have mmcv compute with roicy, as :func:`patch_transformers` has transformers.

    The code of ``mmcv.ops.multi_scale_deform_attn.multi_scale_deformable_attn_pytorch`` is
    exchanged, which its module MultiScaleDeformableAttention and others call.
    """
    return _patches.patched("mmcv")
