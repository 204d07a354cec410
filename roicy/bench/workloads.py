"""Calls in the sizes that detectors use.  `python -m roicy bench` and the ASV suite time them.

WORKLOADS are calls of operators on maps, CROPS of crop, MASKS of paste_masks and prototype_masks,
ATTENTION of deformable_attention, LABELS of label_map and resize_masks, and ALL are all of these.
Each has the layouts in which it runs, its `arrays`, and `call`, which returns a function without
parameters.  What is called, and with what, each kind says by its method `prepared`.

This file imports only NumPy, so the suite can use it with any version of roicy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


def placed(values: np.ndarray, dtype: str | np.dtype) -> np.ndarray:
    """Return a copy that begins 16 bytes into a page, as large arrays of NumPy do.

    Where smaller arrays begin depends on what was allocated before, even on the length of a
    module's path.  Vectors then cross cache lines or do not, which changes the times.
    """
    page = 4096
    size = values.size * np.dtype(dtype).itemsize
    memory = np.empty(size + 2 * page, np.uint8)
    start = -memory.ctypes.data % page + 16
    copy = memory[start : start + size].view(dtype).reshape(values.shape)
    np.copyto(copy, values, casting="unsafe")
    return copy


def each_level(maps: Any) -> list[Any]:
    """Return a list of the maps of a pyramid, or of the only one."""
    return list(maps) if isinstance(maps, (list, tuple)) else [maps]


def drawn_boxes(
    rng: np.random.Generator, count: int, sides: tuple[int, int], height: float, width: float
) -> np.ndarray:
    """Return boxes (count, 4) in an image: as many small as large ones, by logarithms of sides."""
    extents = np.exp(rng.uniform(*np.log(sides), (count, 2)))
    extents = np.minimum(extents, (width - 1, height - 1))
    corners = rng.uniform(size=(count, 2)) * ((width, height) - extents)
    return np.concatenate([corners, corners + extents], axis=1)


class Workload(NamedTuple):
    """One call of an operator: its maps, its boxes and its parameters."""

    about: str  # what it stands for
    operator: str
    shape: tuple[int, int, int, int]  # (N, C, H, W) of the map, or of the finest of a pyramid
    count: int  # number of boxes
    output_size: tuple[int, int]
    spatial_scale: float
    sides: tuple[int, int]  # the smallest and the largest side of a box, in pixels of the image
    parameters: dict[str, Any]
    levels: int = 1

    layouts = ("NCHW", "NHWC")

    def function(self, direction: str) -> str:
        """Return the name of the function that computes a pass."""
        return self.operator + ("" if direction == "forward" else f"_{direction}")

    def has(self, roicy: Any, direction: str) -> bool:
        """Return whether the operator has this pass."""
        return hasattr(roicy, self.function(direction))

    def takes_out(self, direction: str) -> bool:
        """Return whether a pass writes to an array of the caller's."""
        return direction != "backward_boxes"

    @property
    def description(self) -> str:
        """What is pooled, in a line."""
        bins, maps = ("x".join(map(str, sides)) for sides in (self.output_size, self.shape))
        levels = f", {self.levels} levels" * (self.levels > 1)
        return f"{self.operator}: {self.count} boxes, {bins} bins, map {maps}{levels}"

    @property
    def scales(self) -> float | list[float]:
        """Return what the operator takes as its scale."""
        scales = [self.spatial_scale / 2**level for level in range(self.levels)]
        return scales if self.levels > 1 else scales[0]

    def arrays(self, dtype: str = "float32") -> dict[str, Any]:
        """Return the input, the boxes and the gradient of the output.

        The input of a pyramid is a list.  `dtype` is the type of the input; if it is a small one,
        boxes and gradient are float32.  An input of uint8 has the values of a picture.
        """
        computed = "float64" if dtype == "float64" else "float32"
        rng = np.random.default_rng(0)
        n, c, h, w = self.shape
        extents = h / self.spatial_scale, w / self.spatial_scale
        boxes = drawn_boxes(rng, self.count, self.sides, *extents)
        images = np.sort(rng.integers(0, n, self.count))
        if "rotated" in self.operator:
            first, last = boxes[:, :2], boxes[:, 2:]
            angles = np.random.default_rng(1).uniform(-np.pi, np.pi, self.count)
            boxes = np.column_stack([(first + last) / 2, last - first, angles])
        bins = self.output_size[0] * self.output_size[1]
        channels = c // bins if self.operator.startswith("ps_") else c

        def maps(level):
            maps = rng.standard_normal((n, c, -(-h >> level), -(-w >> level)), "float32")
            return placed(np.clip(maps * 40 + 128, 0, 255) if dtype == "uint8" else maps, dtype)

        return {
            "input": maps(0) if self.levels == 1 else [maps(level) for level in range(self.levels)],
            "boxes": np.column_stack([images, boxes]).astype(computed),
            "grad_output": placed(
                rng.standard_normal((self.count, channels, *self.output_size), "float32"), computed
            ),
        }

    def call(
        self, roicy: Any, arrays: dict[str, Any], direction: str = "forward", layout: str = "NCHW",
        reuse: bool = False, threads: int = 1, put: Any = np.asarray,
    ) -> Any:  # fmt: skip
        """Return a function without parameters, which calls an operator of the module `roicy`.

        `direction` is "forward", "backward" or "backward_boxes".  If `reuse`, all calls write to
        the same array, where the operator takes one.  `put` is a function that brings an array to
        the device of the call.
        """
        operator, given, options = self.prepared(roicy, arrays, direction, layout, put)
        options["num_threads"] = threads

        def function(**out):
            return operator(*given, **options, **out)

        if reuse and self.takes_out(direction):
            out = function()
            return lambda: function(out=out)
        return function

    def prepared(
        self, roicy: Any, arrays: dict[str, Any], direction: str, layout: str, put: Any
    ) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """Return what is called, with which arguments and options."""

        def laid_out(array):
            if isinstance(array, list):
                return [laid_out(level) for level in array]
            last = layout == "NHWC"
            return put(placed(array.transpose(0, 2, 3, 1), array.dtype) if last else array)

        input, grad = laid_out(arrays["input"]), laid_out(arrays["grad_output"])
        boxes = put(arrays["boxes"])
        options = {**self.parameters, "layout": layout}
        operator = getattr(roicy, self.function(direction))
        given = (input, boxes, self.output_size, self.scales)
        if direction == "forward":
            return operator, given, options
        if self.operator == "roi_pool":
            argmax = roicy.roi_pool(*given, return_argmax=True, **options)[1]
            return operator, (grad, argmax, boxes, input.shape), options
        if direction == "backward_boxes" or self.operator == "roi_align_max":
            return operator, (grad, input, boxes, self.scales), options
        shape = input.shape if self.levels == 1 else [level.shape for level in input]
        return operator, (grad, boxes, shape, self.scales), options

    def read_bytes(self, arrays: dict[str, Any], direction: str) -> int:
        """Return the bytes of the map, frame, masks or gradient that a call may read."""
        read = arrays["grad_output"] if direction == "backward" else next(iter(arrays.values()))
        return sum(array.nbytes for array in each_level(read))


ADAPTIVE, TWO = {"sampling_ratio": -1}, {"sampling_ratio": 2}
ALIGNED = ADAPTIVE | {"aligned": True}
P2, P3, C4, TINY = (1, 256, 200, 304), (1, 256, 100, 152), (1, 1024, 50, 76), (1, 64, 32, 32)
# fmt: off
WORKLOADS = {name: Workload(*row) for name, *row in [
    ("align_fpn_p2", "the box head on the finest level of a pyramid",
     "roi_align", P2, 1000, (7, 7), 1 / 4, (16, 112), ALIGNED),
    ("align_fpn_p2_sr2", "the same with 2 x 2 samples a bin",
     "roi_align", P2, 1000, (7, 7), 1 / 4, (16, 112), TWO),
    ("align_fpn_p3", "the box head on the next level",
     "roi_align", P3, 400, (7, 7), 1 / 8, (112, 224), TWO),
    ("align_fpn_p4", "the box head on the level after it",
     "roi_align", (1, 256, 50, 76), 200, (7, 7), 1 / 16, (224, 448), TWO),
    ("align_pyramid", "the box head on all levels, boxes of all sizes",
     "multiscale_roi_align", P2, 1000, (7, 7), 1 / 4, (16, 700), TWO, 4),
    ("align_mask", "the mask head",
     "roi_align", P2, 100, (14, 14), 1 / 4, (16, 224), TWO),
    ("align_few", "the mask head on the few boxes that are left of an image",
     "roi_align", P2, 12, (14, 14), 1 / 4, (16, 224), TWO),
    ("align_c4", "a detector without a pyramid: one level of many channels",
     "roi_align", C4, 300, (14, 14), 1 / 16, (64, 760), ADAPTIVE),
    ("align_adaptive", "few boxes, so large that samples a pixel apart are many",
     "roi_align", P2, 300, (7, 7), 1 / 4, (300, 800), ALIGNED),
    ("align_train", "the batch of a training step",
     "roi_align", (4, 256, 100, 152), 2048, (7, 7), 1 / 8, (32, 224), TWO),
    ("align_tiny", "so little work that the cost of a call itself shows",
     "roi_align", TINY, 8, (7, 7), 1 / 2, (8, 48), TWO),
    ("align_camera", "crops of a camera frame whose channels are first",
     "roi_align", (1, 3, 1080, 1920), 64, (224, 224), 1.0, (64, 512), ADAPTIVE),
    ("rotated_aerial", "turned boxes: objects on aerial images",
     "roi_align_rotated", (1, 256, 256, 256), 2000, (7, 7), 1 / 8, (16, 300), TWO),
    ("pool_vgg", "Fast R-CNN",
     "roi_pool", (1, 512, 50, 76), 1000, (7, 7), 1 / 16, (64, 600), {}),
    ("pool_tiny", "so little work that the cost of a call itself shows",
     "roi_pool", TINY, 8, (7, 7), 1 / 2, (8, 48), {}),
    ("ps_align_lighthead", "Light-Head R-CNN",
     "ps_roi_align", (1, 490, 50, 76), 1000, (7, 7), 1 / 16, (64, 600), TWO),
    ("ps_align_rfcn", "R-FCN",
     "ps_roi_align", (1, 1029, 50, 76), 300, (7, 7), 1 / 16, (64, 600), ADAPTIVE),
    ("prroi_iounet", "IoU-Net",
     "prroi_pool", P3, 1000, (7, 7), 1 / 8, (32, 300), {}),
    ("prroi_c4", "a detector without a pyramid, exact means",
     "prroi_pool", (1, 512, 50, 76), 300, (14, 14), 1 / 16, (64, 760), {}),
]}
# fmt: on


class CropWorkload(NamedTuple):
    """One call of crop on a frame of 1080 x 1920 bytes: how many boxes, of which sizes and kind."""

    count: int
    size: tuple[int, int]  # of a crop, (height, width)
    widths: tuple[int, int]  # the smallest and the largest width of a box
    aspects: tuple[float, float]  # height of a box / width
    antialias: bool = False
    kind: str = "upright"  # or "matrices" or "corners"
    color: str | None = None  # or "nv12", which becomes RGB
    fit: str = "stretch"
    about: str = ""

    operator, layouts = "crop", ("NHWC",)  # a frame has its channels last
    function, has, takes_out = Workload.function, Workload.has, Workload.takes_out
    call, read_bytes = Workload.call, Workload.read_bytes

    @property
    def description(self) -> str:
        """What is cut out, in a line."""
        size = "x".join(map(str, self.size))
        return f"crop: {self.count} boxes of {self.color or 'bgr'} 1080x1920 to {size}"

    def arrays(self, dtype: str = "float32") -> dict[str, Any]:
        """Return the frame, of bytes, and the boxes, upright ones in whole pixels for slices."""
        rng = np.random.default_rng(0)
        coarse = rng.uniform(0, 255, (68, 120, 3)).repeat(16, axis=0).repeat(16, axis=1)
        frame = placed(np.clip(coarse[:1080] + rng.normal(0, 8, (1080, 1920, 3)), 0, 255), "uint8")
        width = np.exp(rng.uniform(*np.log(self.widths), self.count))
        height = np.minimum(width * rng.uniform(*self.aspects, self.count), 1080)
        x, y = (rng.uniform(size=(2, self.count)).T * ((1920, 1080) - np.c_[width, height])).T
        boxes = np.column_stack([x, y, x + width, y + height]).round()
        if self.color:  # green as Y, and red and blue of each fourth pixel as U and V
            half = frame[::2, ::2, ::2].reshape(540, 1920)
            frame = placed(np.concatenate([frame[:, :, 1], half]), "uint8")
        if self.kind == "upright":
            return {"frame": frame, "boxes": boxes}
        x1, y1, x2, y2 = boxes.T
        tilt = 0.15 * (y2 - y1)
        if self.kind == "corners":
            corners = np.array([[x1, y1 + tilt], [x2, y1], [x2, y2 - tilt], [x1, y2]])
            return {"frame": frame, "boxes": np.ascontiguousarray(corners.transpose(2, 0, 1))}
        angle = rng.uniform(-0.5, 0.5, self.count)
        scale = self.size[1] / (x2 - x1)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) * scale
        turn = turn.transpose(2, 0, 1)
        middle = np.array([(self.size[1] - 1) / 2, (self.size[0] - 1) / 2])
        shift = middle - (turn @ np.c_[x1 + x2, y1 + y2][:, :, None] / 2)[:, :, 0]
        return {"frame": frame, "boxes": np.concatenate([turn, shift[:, :, None]], axis=2)}

    def prepared(self, roicy: Any, arrays: dict[str, Any], *_: Any) -> Any:
        """Return a call from BGR bytes to normalised RGB of float32."""
        options: dict[str, Any] = {
            "mean": MEAN, "std": STD, "scale": 1 / 255, "swap_channels": self.color is None,
            "antialias": self.antialias, "border": "crop" if self.kind == "upright" else "constant",
        }  # fmt: skip
        if self.color:
            options |= {"color": self.color, "fit": self.fit}
        return roicy.crop, (arrays["frame"], arrays["boxes"], self.size), options


FACES = CropWorkload(16, (112, 112), (60, 300), (1.0, 1.3))
PEOPLE = CropWorkload(32, (256, 128), (60, 200), (2.2, 3.0))
OBJECTS = CropWorkload(16, (224, 224), (64, 512), (0.7, 1.3))
TEXT = CropWorkload(8, (48, 192), (100, 500), (0.15, 0.3))
# fmt: off
CROPS = {name: crop._replace(about=about) for name, about, crop in [
    ("crop_faces", "faces for a network that recognises them", FACES),
    ("crop_people", "people for a network that recognises them again", PEOPLE),
    ("crop_objects", "objects for a classifier", OBJECTS),
    ("crop_text", "lines of text for a reader", TEXT),
    ("crop_one", "one face: what it costs to call", FACES._replace(count=1)),
    ("crop_faces_area", "faces, by areas under output pixels", FACES._replace(antialias=True)),
    ("crop_people_area", "people, by areas under output pixels", PEOPLE._replace(antialias=True)),
    ("crop_objects_area", "objects, by areas under output pixels",
     OBJECTS._replace(antialias=True)),
    ("crop_text_area", "lines of text, by areas under output pixels",
     TEXT._replace(antialias=True)),
    ("crop_nv12_faces", "faces of a video frame", FACES._replace(color="nv12")),
    ("crop_nv12_people", "people of a video frame", PEOPLE._replace(color="nv12")),
    ("crop_nv12_letterbox", "a whole video frame for a detector",
     CropWorkload(1, (640, 640), (1920, 1920), (0.5625, 0.5625), True,
                  color="nv12", fit="letterbox")),
    ("crop_faces_affine", "faces that are aligned by their landmarks",
     FACES._replace(kind="matrices")),
    ("crop_text_corners", "lines of text in perspective", TEXT._replace(kind="corners")),
]}
# fmt: on
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def coded(operator: Any) -> Any:
    """Return a function of codes, which are arrays of bytes, to be compared as other results."""

    def codes(*given, **options):
        found = operator(*given, format="rle", **options)
        return [np.frombuffer(code["counts"], np.uint8) for code in found]

    return codes


class MaskWorkload(NamedTuple):
    """One call of paste_masks: masks of 28 x 28 numbers, and images of 800 x 1088 pixels; or of
    prototype_masks: 32 prototypes of 96 x 160 numbers.
    """

    about: str
    result: str  # "values", "bool" or "rle"; or "yolo", which are of bool
    count: int = 100
    image_shape: tuple[int, int] = (800, 1088)
    sides: tuple[int, int] = (16, 512)  # the smallest and the largest side of a box

    layouts = ("NCHW",)  # masks are planes
    function, has = Workload.function, Workload.has
    call, read_bytes = Workload.call, Workload.read_bytes

    @property
    def operator(self) -> str:
        """What is called."""
        return "prototype_masks" if self.result == "yolo" else "paste_masks"

    @property
    def description(self) -> str:
        """What is pasted, in a line."""
        image = "x".join(map(str, self.image_shape))
        return f"{self.operator}: {self.count} masks in images {image}, as {self.result}"

    def arrays(self, dtype: str = "float32") -> dict[str, Any]:
        """Return masks (K, 28, 28) of a disk with soft edges, of float32, and boxes (K, 4); or
        prototypes of patches, coefficients and boxes.
        """
        rng = np.random.default_rng(0)
        grid = np.linspace(-1, 1, 28)
        disk = 1 / (1 + np.exp(8 * (grid[:, None] ** 2 + grid**2 - 0.6)))
        boxes = drawn_boxes(rng, self.count, self.sides, *self.image_shape)
        if self.result == "yolo":
            patches = rng.standard_normal((32, 12, 20)).repeat(8, axis=1).repeat(8, axis=2)
            weights = rng.standard_normal((self.count, 32), np.float32)
            arrays = {"prototypes": placed(patches, "float32"), "coefficients": weights}
            return arrays | {"boxes": boxes.astype(np.float32)}
        masks = placed(np.repeat(disk[None], self.count, axis=0), "float32")
        return {"masks": masks, "boxes": boxes.astype(np.float32)}

    def takes_out(self, _: str) -> bool:
        """Return whether the result is an array; codes are new in each call."""
        return self.result != "rle"

    def prepared(self, roicy: Any, arrays: dict[str, Any], *_: Any) -> Any:
        """Return a call that pastes masks."""
        given = (*arrays.values(), self.image_shape)
        if self.result == "yolo":
            return roicy.prototype_masks, given, {"rule": "ultralytics_native"}
        if self.result == "rle":
            return coded(roicy.paste_masks), given, {}
        return roicy.paste_masks, given, {"threshold": None if self.result == "values" else 0.5}


MASKS = {
    "paste_masks": MaskWorkload("masks of an image's boxes, as bools", "bool"),
    "paste_masks_values": MaskWorkload("the same as numbers of 0..1", "values"),
    "paste_masks_rle": MaskWorkload("the same as COCO's run-length codes", "rle"),
    "yolo_masks": MaskWorkload(
        "masks of YOLO in a video frame", "yolo", 20, (1080, 1920), (54, 1080)
    ),
}


class AttentionWorkload(NamedTuple):
    """One call of deformable_attention: 8 heads of 32 channels, 4 points on each level."""

    about: str
    shapes: tuple[tuple[int, int], ...]
    queries: int | None = None  # None: each pixel asks for what lies around it

    operator, layouts = "deformable_attention", ("NHWC",)
    function, has = Workload.function, Workload.has
    call, read_bytes = Workload.call, Workload.read_bytes

    def takes_out(self, direction: str) -> bool:
        """Return whether a pass writes to an array of the caller's."""
        return direction == "forward"

    @property
    def description(self) -> str:
        """What is sampled, in a line."""
        levels = ", ".join(f"{height}x{width}" for height, width in self.shapes)
        return f"deformable_attention: {self.queries or 'all'} queries, levels {levels}"

    def arrays(self, dtype: str = "float32") -> dict[str, Any]:
        """Return value, locations, weights and the gradient of the output, of float32."""
        rng = np.random.default_rng(0)
        steps = [np.indices((h, w)).reshape(2, -1).T[:, ::-1] + 0.5 for h, w in self.shapes]
        sizes = [np.array([w, h]) for h, w in self.shapes]
        pixels = np.concatenate([at / size for at, size in zip(steps, sizes, strict=True)])
        reach = 2.5 / np.array(sizes)[:, None]
        if self.queries is not None:  # within the boxes of objects, of any size
            pixels, reach = rng.uniform(0.1, 0.9, (self.queries, 2)), np.array(0.1)
        form = (1, len(pixels), 8, len(self.shapes), 4)
        places = pixels[None, :, None, None, None] + reach * rng.standard_normal((*form, 2))
        value = rng.standard_normal((1, sum(map(len, steps)), 8, 32), "float32")
        weights = rng.random(form) * 2 / (4 * len(self.shapes))
        arrays = {"value": value, "locations": places, "weights": weights}
        arrays["grad_output"] = rng.standard_normal((1, len(pixels), 256), "float32")
        return {name: placed(array, "float32") for name, array in arrays.items()}

    def prepared(self, roicy: Any, arrays: dict[str, Any], direction: str, *_: Any) -> Any:
        """Return a call of a pass; the one backward computes all gradients."""
        given = [arrays["value"], self.shapes, arrays["locations"], arrays["weights"]]
        if direction == "backward":
            given.insert(0, arrays["grad_output"])
        return getattr(roicy, self.function(direction)), given, {}


ATTENTION = {
    "attention_encoder": AttentionWorkload(
        "a layer of Mask2Former's encoder", ((12, 12), (24, 24), (48, 48))
    ),
    "attention_decoder": AttentionWorkload(
        "a layer of RT-DETR's decoder", ((80, 80), (40, 40), (20, 20)), 300
    ),
}


class LabelWorkload(NamedTuple):
    """One call of label_map on maps of classes, or of resize_masks on those of objects."""

    about: str
    shape: tuple[int, int, int]  # (C, h, w) of the maps
    size: tuple[int, int]  # of the picture
    result: str = "labels"  # or "bool" or "rle", which are masks
    noise: float | None = 0.4  # of patches; 3 is much, and None is noise of each number alone

    layouts = ("NCHW",)
    function, has = Workload.function, Workload.has
    call, read_bytes = Workload.call, Workload.read_bytes
    takes_out = MaskWorkload.takes_out

    @property
    def operator(self) -> str:
        """What is called."""
        return "label_map" if self.result == "labels" else "resize_masks"

    @property
    def description(self) -> str:
        """What is enlarged, in a line."""
        maps, picture = ("x".join(map(str, sides)) for sides in (self.shape, self.size))
        return f"{self.operator}: maps {maps} to {picture}, as {self.result}"

    def arrays(self, dtype: str = "float32") -> dict[str, Any]:
        """Return maps (C, h, w): each falls off from 8 in the middle of a blob, and 0 is its edge.

        Patches of 8 x 8 numbers have some noise, and no number is beyond 12.
        """
        rng = np.random.default_rng(0)
        count, *extents = self.shape
        if self.noise is None:
            return {"maps": placed(rng.standard_normal(self.shape, "float32"), dtype)}
        side = np.exp(rng.uniform(*np.log((0.05, 0.5)), (count, 1, 1)))
        y, x = (
            (grid / extent - rng.random((count, 1, 1)))
            / (side * rng.uniform(0.5, 1.5, (count, 1, 1)))
            for grid, extent in zip(np.ogrid[: extents[0], : extents[1]], extents, strict=True)
        )
        patches = rng.standard_normal((count, *(-(-extent // 8) for extent in extents)))
        patches = patches.repeat(8, axis=1).repeat(8, axis=2)[:, : extents[0], : extents[1]]
        moved = [np.roll(patches, by, axis) for by in (-3, 3) for axis in (1, 2)]
        noise = self.noise / 5 * (patches + sum(moved))
        return {"maps": placed(np.clip(8 - 8 * np.hypot(y, x) + noise, -12, 12), dtype)}

    def prepared(self, roicy: Any, arrays: dict[str, Any], *_: Any) -> Any:
        """Return a call that labels the pixels of a picture, or makes masks of it."""
        operator = getattr(roicy, self.operator)
        if self.result == "rle":
            operator = coded(operator)
        return operator, (arrays["maps"], self.size), {}


LABELS = {
    "labels_19": LabelWorkload(
        "19 classes of a street scene (Cityscapes)", (19, 128, 256), (1024, 2048)
    ),
    "labels_150": LabelWorkload(
        "150 classes in a video frame (ADE20K)", (150, 128, 128), (1080, 1920)
    ),
    "masks_picture": LabelWorkload(
        "masks of RF-DETR in a video frame", (100, 108, 108), (1080, 1920), "bool"
    ),
    "masks_picture_rle": LabelWorkload(
        "the same as COCO's run-length codes", (100, 108, 108), (1080, 1920), "rle"
    ),
}


class ResizeWorkload(NamedTuple):
    """One call of resize: a frame of bytes of 1080 x 1920 pixels, with Pillow's bicubic filter."""

    about: str
    size: tuple[int, int]
    patches: dict[str, int]  # keywords of patches; none: planes

    operator, layouts = "resize", ("NHWC",)  # a frame has its channels last
    function, has, takes_out = Workload.function, Workload.has, Workload.takes_out
    call, read_bytes = Workload.call, Workload.read_bytes

    @property
    def description(self) -> str:
        """What is resized, in a line."""
        return f"resize: rgb 1080x1920 to {'x'.join(map(str, self.size))}, bicubic"

    def arrays(self, dtype: str = "float32") -> dict[str, Any]:
        """Return the frame of the crops."""
        return {"frame": FACES.arrays()["frame"]}

    def prepared(self, roicy: Any, arrays: dict[str, Any], *_: Any) -> Any:
        """Return a call from RGB bytes to normalised float32."""
        options = {"mean": MEAN, "std": STD, "scale": 1 / 255, **self.patches}
        return roicy.resize, (arrays["frame"], self.size), options


RESIZES = {
    "resize_clip": ResizeWorkload("a video frame for CLIP's network", (224, 224), {}),
    "resize_qwen": ResizeWorkload(
        "a video frame for Qwen2-VL's", (728, 1316), {"patch": 14, "merge": 2, "repeat": 2}
    ),
}
ALL: dict[str, Any] = {**WORKLOADS, **CROPS, **MASKS, **ATTENTION, **LABELS, **RESIZES}
