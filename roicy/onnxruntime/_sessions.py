"""What sessions are made with, so that they have the provider: options, and a list of providers."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import onnxruntime  # type: ignore[import-untyped]
from onnxruntime.capi import (  # type: ignore[import-untyped]
    onnxruntime_inference_collection as collection,
)
from onnxruntime.capi import onnxruntime_pybind11_state as state

from . import get_ep_name, options_of, register

NAME, CPU = get_ep_name(), "CPUExecutionProvider"
AZURE = "AzureExecutionProvider"  # it calls services, and is in no session that does not name it
UNKNOWN = "is not a registered function/op"  # what ONNX Runtime says of operators
EMPTY = b"\x08\x08:\x03\x12\x01gB\x04\n\x00\x10\x10"  # a model without nodes


def copy_of(options: Any) -> Any:
    """Return a copy of options, but for libraries of custom operators and providers.

    ONNX Runtime copies options for each session, and gives the copy.  If they ask for a profile,
    the session has begun one.
    """
    session = state.InferenceSession(options, EMPTY, False, False)
    copy = session.session_options
    if options.enable_profiling:
        os.remove(session.end_profiling())
    return copy


def _defaults() -> list[str]:
    """Return the providers of sessions that name none, the best first."""
    available = onnxruntime.get_available_providers()
    return [name for name in onnxruntime.get_all_providers() if name in available and name != AZURE]


def _listed(providers: Any, provider_options: Any) -> dict[str, Any] | None:
    """Return the options of each provider, or None for a list that ONNX Runtime refuses.

    Names that it does not know are left out.  It would leave out all but the CPU's.
    """
    if not isinstance(providers, Sequence):
        return None
    pairs = [one if isinstance(one, tuple) else (one, {}) for one in providers]
    if provider_options is not None:
        if not isinstance(provider_options, Sequence) or len(providers) != len(provider_options):
            return None
        pairs = list(zip(providers, provider_options, strict=True))
    known = [NAME, *onnxruntime.get_all_providers(), *onnxruntime.get_available_providers()]
    listed: dict[str, Any] = {}
    for pair in pairs:
        if len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], dict):
            return None
        if pair[0] in known:
            given = {str(key): str(value) for key, value in pair[1].items()}
            listed.setdefault(pair[0], given)
        else:
            text = f"providers: {pair[0]!r} is left out, which ONNX Runtime does not know"
            warnings.warn(text, stacklevel=4)
    return listed


def with_provider(
    create: Callable[[Any, Any, Any], None], options: Any, providers: Any, provider_options: Any,
    num_threads: int | None = None, first: bool = False,
) -> None:  # fmt: skip
    """Create a session that has roicy's provider.

    create: creates it of the next three parameters, which are as ``onnxruntime.InferenceSession``
    takes them.  None of them is changed.  Options that have providers are taken as they are, if no
    other providers are named.
    num_threads: as of :func:`roicy.onnxruntime.use`.
    first: whether roicy's comes before all others.  If not, it stays where the list has it, or
    comes just before the CPU's.
    """
    register()
    listed = _listed(providers or ([] if first else _defaults()), provider_options)
    if listed is None or (options is not None and options.has_providers() and not providers):
        create(options, providers, provider_options)
        return
    names = list(listed)
    place = next((names.index(name) for name in (NAME, CPU) if name in names), len(names))
    given = options_of(options or onnxruntime.SessionOptions(), num_threads)
    own = listed.pop(NAME, {})
    if num_threads is not None and own.get("num_threads", str(num_threads)) != str(num_threads):
        raise ValueError(f"num_threads: {num_threads}, but providers say {own['num_threads']}")
    entries = list(listed.items()) or [(CPU, {})]
    entries.insert(0 if first else place, (NAME, given | own))
    if NAME not in onnxruntime.get_available_providers():  # older versions
        _with_devices(create, options, entries)
        return
    try:
        create(options, entries, None)
    except Exception as error:
        # A plugin that is taken by its name brings no domains of operators.
        try:
            _with_devices(create, options, entries)
        except Exception:
            if UNKNOWN in str(error):
                raise
            raise error from None


def _with_devices(create: Callable[..., None], options: Any, entries: list[Any]) -> None:
    """Create a session whose options have the providers, of a copy of these options.

    It lacks the libraries of operators that the caller's may have.
    """
    copy = onnxruntime.SessionOptions() if options is None else copy_of(options)
    for name, given in entries:
        if name == NAME:
            copy.add_provider_for_devices(register(), given)
        elif name in onnxruntime.get_available_providers():
            copy.add_provider(name, given)
    create(copy, None, None)


# What install() has put in the place of: (InferenceSession.__init__, set_providers)
_originals: tuple[Any, Any] | None = None


def install() -> bool:
    """Exchange what makes sessions; False if it is exchanged already."""
    global _originals
    session = collection.InferenceSession
    if _originals is not None:
        return False
    init, set_providers = _originals = session.__init__, session.set_providers

    @functools.wraps(init)
    def with_roicy(
        self: Any, path_or_bytes: Any, sess_options: Any = None, providers: Any = None,
        provider_options: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        create = functools.partial(init, self, path_or_bytes, **kwargs)
        with_provider(create, sess_options, providers, provider_options)

    @functools.wraps(set_providers)
    def set_with_roicy(self: Any, providers: Any = None, provider_options: Any = None) -> None:
        def create(options: Any, *given: Any) -> None:
            self._sess_options_initial = options
            set_providers(self, *given)

        with_provider(create, self._sess_options_initial, providers, provider_options)

    session.__init__, session.set_providers = with_roicy, set_with_roicy
    return True


def uninstall() -> None:
    """Put back what made sessions."""
    global _originals
    if _originals is not None:
        session = collection.InferenceSession
        session.__init__, session.set_providers = _originals
        _originals = None
