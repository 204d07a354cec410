"""Image processors of transformers, from their configs: :class:`ImageProcessor`."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import numpy as np

from .._checks import _arguments
from .._machine import _memory
from ..cropping.filters import OF_TORCH
from ..cropping.resizing import PILLOWS, resize
from . import configs as _configs
from . import pictures as _pictures
from . import plans as _plans
from . import table as _table

BACKENDS = ("torchvision", "pil")
OF_BYTES = ("filter", "arithmetic", "alpha")  # options of calls that make bytes
SHOWN = (1080, 1920)  # the picture whose calls are printed


class ImageProcessor:
    """Make of pictures what an image processor of transformers makes of them, to the last bit.

    ``ImageProcessor.from_config(path)`` reads a ``preprocessor_config.json``.  A call with pictures
    gives `pixel_values` and what belongs to them, by calls of :func:`roicy.resize`, which
    ``print(processor)`` shows.  Neither transformers nor PyTorch is needed.

    See Also
    --------
    resize : what it calls

    Examples
    --------
    >>> import numpy as np, roicy
    >>> processor = roicy.ImageProcessor.from_config(
    ...     {"image_processor_type": "CLIPImageProcessor", "size": 336, "crop_size": 336})
    >>> picture = np.full((1080, 1920, 3), 128, np.uint8)  # RGB
    >>> processor(picture)["pixel_values"].shape
    (1, 3, 336, 336)
    >>> processor.calls(1080, 1920)
    ['roicy.resize(picture, (336, 336), content=(0, -130, 336, 597))']
    """

    def __init__(self, name: str, settings: dict[str, Any], backend: str):
        self.name, self.backend, self._row = name, backend, _table.ROWS[name]
        self._settings = SimpleNamespace(name=name, torch=backend == "torchvision", **settings)
        self._options = self._in_common()
        self._row.plan(self._settings, *SHOWN, 3)  # what is wrong with any picture is refused here

    @classmethod
    def from_config(
        cls, config: str | os.PathLike[str] | dict[str, Any], *, backend: str = "torchvision",
        ignore: tuple[str, ...] = (),
    ) -> ImageProcessor:  # fmt: skip
        """Return the image processor of a config.

        Parameters
        ----------
        config : str, path or dict
            A ``preprocessor_config.json``, its folder, or what is in it.
        backend : {"torchvision", "pil"}, optional
            Whose numbers are made: those of the class that transformers takes where torchvision is
            installed, which is the default, or of the one for Pillow.
        ignore : tuple of str, optional
            Keys that are not known, and do not matter.

        Raises
        ------
        TypeError, ValueError
            If a class, a key or a value is not known.  The message says what is known.
        OSError
            If the file cannot be read.

        Examples
        --------
        >>> import roicy
        >>> roicy.ImageProcessor.from_config({"image_processor_type": "ViTImageProcessor"}).name
        'ViTImageProcessor'
        """
        _arguments.choice("backend", backend, BACKENDS)
        given = _configs.read(config)
        name = _configs.name_of(given)
        row = _table.ROWS[name]
        for old, new in row.renamed.items():
            if {old, new} <= given.keys() and given[old] != given[new]:
                raise ValueError(f"{old}: {given[old]!r}, expected that of {new}, {given[new]!r}")
        given = {row.renamed.get(key, key): value for key, value in given.items()}
        strange = given.keys() - row.defaults.keys() - _table.IDLE - {*ignore}
        unknown = tuple(sorted(key for key in strange if given[key] is not None))
        if unknown:
            raise ValueError(
                f"config: {', '.join(unknown)}, expected keys that {name} knows: "
                f"{', '.join(sorted(row.defaults))}; where it does not matter, pass "
                f"ignore={unknown!r}"
            )
        settings = row.defaults | {  # null sets no flag, and of other keys it is the default
            key: given[key]
            for key in row.defaults.keys() & given.keys()
            if given[key] is not None or row.defaults[key] is True or key == "pad_size"
        }
        if (name, backend) in _table.UNCROPPED:
            settings["do_center_crop"] = False
        return cls(name, _configs.standard(name, settings, given), backend)

    def __call__(
        self, pictures: Any, *, out: np.ndarray | None = None, num_threads: int | None = None
    ) -> dict[str, Any]:
        """Return `pixel_values` of pictures, and what belongs to them.

        Parameters
        ----------
        pictures : a picture, or list of pictures or of lists of pictures
            Arrays of uint8, (H, W), (H, W, C), (C, H, W) or (N, H, W, C), or PIL pictures, of any
            sizes.  They become RGB, on white, where the class makes them so.  As by the class, no
            orientation of EXIF is followed: pass ``ImageOps.exif_transpose(picture)``.
        out : ndarray, optional
            Where `pixel_values` are written.
        num_threads : int, optional
            At most as many threads are used; by default :func:`roicy.get_num_threads`.

        Returns
        -------
        dict
            "pixel_values" of float32, and what else the class gives, such as "image_grid_thw", as
            arrays; of uint8 if bytes are neither scaled nor normalised.
            Pictures that became of different sizes, and are not padded, are a list of arrays.

        Raises
        ------
        TypeError, ValueError
            If a picture is not one of bytes, or has other channels than the config has means.
        """
        c, row = self._settings, self._row
        samples = [
            [_pictures.taken(one, c.do_convert_rgb, c.torch) for one in sample]
            for sample in _pictures.nested(pictures, hasattr(c, "max_image_size"))
        ]
        flat = [one for sample in samples for one in sample]
        plans = [self._plan(*one.shape, len(sample)) for sample in samples for one in sample]
        batch = row.batch(plans, [len(sample) for sample in samples], c, row.mask)
        dtype = self._options.get("dtype", "float32")
        if batch.zeros and hasattr(c, "max_image_size"):
            dtype = "float32"  # as Idefics3 pads samples
        if isinstance(batch.shape, list):
            if out is not None:
                raise ValueError(f"out: an array, expected None for pictures of {batch.shape}")
            values: Any = [np.zeros(shape, dtype) for shape in batch.shape]
        elif out is None and batch.zeros:
            values = np.zeros(batch.shape, dtype)
        else:
            values = _memory.result(out, batch.shape, (np.dtype(dtype),), flat)
            if batch.zeros:
                values[...] = 0
        for picture, plan, part in zip(flat, plans, batch.parts(values), strict=True):
            self._make(picture, plan, part, num_threads)
        return {"pixel_values": values if out is None else out, **batch.facts}

    def calls(self, height: int, width: int) -> list[str]:
        """Return the calls of :func:`roicy.resize` for an RGB picture, as text.

        What those that make `pixel_values` have in common, ``print`` shows.
        """
        size = _arguments.picture("height, width", (height, width), 1)
        plan, name, said = self._plan(*size, 3, 1), "picture", []
        common = {key: self._options[key] for key in OF_BYTES if key in self._options}
        first = (plan.whole,) if plan.whole else ()
        for call in (*first, *plan.before, *plan.calls):
            options = call.options
            if call in plan.before:
                options = {**options, **common, "dtype": "uint8", "channels": "last"}
            source = "numpy.rot90(picture, 3)" if plan.turned and not said else name
            text = "".join(f", {key}={value!r}" for key, value in options.items())
            text = f"roicy.resize({source}, {call.size}{text})"
            said.append(f"picture = {text}[0]" if call in plan.before else text)
        return said

    def __repr__(self) -> str:
        common = ", ".join(f"{key}={value!r}" for key, value in self._options.items())
        return "\n".join([
            f"ImageProcessor of {self.name}, backend={self.backend!r}",
            f"  a picture of {SHOWN[0]} x {SHOWN[1]} pixels:",
            *(f"    {call}" for call in self.calls(*SHOWN)),
            f"  those that make pixel_values with {common}",
        ])  # fmt: skip

    def _in_common(self) -> dict[str, Any]:
        """Return the options of all calls that make pixel_values."""
        c = self._settings
        known = {n: name for n, name in PILLOWS.items() if not c.torch or name in OF_TORCH}
        if c.resample not in known:
            expected = ", ".join(f"{number} ({name})" for number, name in known.items())
            raise ValueError(f"resample: {c.resample!r}, expected {expected}")
        options: dict[str, Any] = {"filter": known[c.resample]}
        options["arithmetic"] = "torch" if c.torch else "pillow"
        if c.do_rescale:
            options["scale"] = c.rescale_factor
            if c.torch and not c.do_normalize and isinstance(c.rescale_factor, int):
                raise ValueError(
                    f"rescale_factor: {c.rescale_factor!r}, expected a float, or do_normalize, "
                    "since PyTorch multiplies bytes by an integer as bytes"
                )
        if c.do_normalize:
            for key, value in (("mean", c.image_mean), ("std", c.image_std)):
                given = tuple(value) if isinstance(value, list) else value
                one = c.torch and isinstance(given, tuple) and len(given) == 1
                options[key] = given[0] if one else given  # PyTorch takes one for all channels
        padded = c.do_pad or not hasattr(c, "max_image_size")
        floats = padded and (c.name, self.backend) in _table.FLOATS
        if not (c.do_rescale or c.do_normalize or floats):
            options["dtype"] = "uint8"
        return options

    def _plan(self, height: int, width: int, channels: int, together: int) -> _plans.Plan:
        for key, name in (("mean", "image_mean"), ("std", "image_std")):
            value = self._options.get(key)
            if isinstance(value, tuple) and len(value) != channels:
                raise ValueError(
                    f"pictures: one of {channels} channel{'s' * (channels > 1)}, expected "
                    f"{len(value)}, as {name} has, since {self.name} makes pictures RGB only if "
                    "do_convert_rgb says so; pass picture.convert('RGB')"
                )
        c = self._settings
        c = SimpleNamespace(**vars(c), several=together > 1) if together > 1 else c
        return self._row.plan(c, height, width, channels)

    def _make(
        self, picture: np.ndarray, plan: _plans.Plan, part: np.ndarray, threads: int | None
    ) -> None:
        """Make the calls of one picture; part: where it goes."""
        options = self._options | {"dtype": part.dtype.name, "num_threads": threads}
        if not self._settings.torch and picture.shape[2] in (2, 4):
            options["alpha"] = "pillow"
        of_bytes = {key: options[key] for key in (*OF_BYTES, "num_threads") if key in options}
        of_bytes |= {"dtype": "uint8", "channels": "last"}
        picture = np.rot90(picture, 3) if plan.turned else picture
        if plan.whole:
            resize(picture, plan.whole.size, out=part[:1], **options, **plan.whole.options)
        for call in plan.before:
            picture = resize(picture, call.size, **of_bytes, **call.options)[0]
        if plan.patch:
            made = [resize(picture, call.size, **options, **call.options) for call in plan.calls]
            part[...] = np.concatenate(
                [_plans.in_columns(one, plan.patch) for some in made for one in some], axis=-1
            )
            return
        if plan.whole:
            for call, one in zip(plan.calls, part[1:], strict=True):
                resize(picture, call.size, out=one[None], **options, **call.options)
            return
        call, target = plan.calls[0], part[None]
        if part.ndim == 3:  # a picture, which may lie in padding
            (top, left), (height, width) = plan.at, call.size
            target = target[:, :, top : top + height, left : left + width]
        elif part.ndim == 4 and "tiles" not in call.options:  # of boxes
            target = part
        resize(picture, call.size, out=target, **options, **call.options)
