"""roicy.ImageProcessor against the image processors of transformers, and what they made before."""

import hashlib
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ISAS, assert_refused
from processed import BACKENDS, CASES, differing, image_of, noise, pictures

import roicy
from roicy.processors import table

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "processors.json").read_text())
SMALL = [noise(71, 90), noise(62, 33), noise(28, 120)]


def digest(array):
    """Return the type, the shape and a hash of an array."""
    array = np.asarray(array)
    little = array.astype(array.dtype.newbyteorder("<"))
    return [array.dtype.name, list(array.shape), hashlib.sha256(little.tobytes()).hexdigest()[:16]]


def processor_of(number, backend):
    name, options = CASES[number]
    return roicy.ImageProcessor.from_config(
        {"image_processor_type": name, **options}, backend=backend
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_recorded(number, backend, isa):
    """Numbers have the bits that transformers made."""
    processor = processor_of(number, backend)
    clear = noise(28, 120, 4) if processor._settings.do_convert_rgb else SMALL[2]
    for i, picture in enumerate([*SMALL[:2], clear][: 3 if isa == ISAS[0] else 1]):
        got = processor(picture, num_threads=1 + i)
        want = RECORDED[f"{number} {backend} {i}"]
        assert {key: digest(value) for key, value in got.items()} == want


def test_all_classes_are_recorded():
    assert {name for name, _ in CASES} == set(table.ROWS)


@pytest.fixture(scope="module")
def transformers():
    """Return what makes an image processor of transformers 5."""
    pytest.importorskip("torchvision")
    found = pytest.importorskip("transformers")
    if int(found.__version__.split(".")[0]) < 5:
        pytest.skip("transformers has other classes")
    auto = importlib.import_module("transformers.models.auto.image_processing_auto")

    def made(number, backend):
        name, options = CASES[number]
        name += "Pil" * (backend == "pil")
        return auto.get_image_processor_class_from_name(name)(**options)

    return made


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", range(0, len(CASES), 3))
def test_transformers(number, backend, transformers):
    """A batch of pictures of different sizes, or each picture where theirs cannot be a batch."""
    theirs, ours = transformers(number, backend), processor_of(number, backend)
    assert differing(theirs(list(SMALL)), ours(list(SMALL))) == 0


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_forty_pictures(number, backend, transformers, isa):
    """1 x 1 pixel to 12 megapixels, of all modes; what is refused is refused by theirs, too."""
    theirs, ours = transformers(number, backend), processor_of(number, backend)
    for name, picture in pictures(large=isa == ISAS[0]):
        try:
            got = ours([picture])
        except (TypeError, ValueError) as error:
            if "expected uint8" in str(error) or "misreads" in str(error):
                continue  # of 1 and 16 bits, where they are not made RGB
            with pytest.raises((TypeError, ValueError, RuntimeError)):
                theirs([picture])
            continue
        assert differing(theirs([picture]), got) == 0, name


@pytest.mark.parametrize("number", range(len(CASES)))
def test_batch(number):
    """Pictures get what they get alone; into memory that is given, with any number of threads."""
    processor = processor_of(number, "torchvision")
    given = [SMALL[0], SMALL[0][::-1]]
    values = processor(given)["pixel_values"]
    out = np.full(values.shape, 7, values.dtype)
    assert processor(given, out=out, num_threads=3)["pixel_values"] is out
    np.testing.assert_array_equal(out, values)
    alone = [processor(one)["pixel_values"] for one in given]
    if values.ndim == 5 and "mask" in processor._row.mask:  # a sample of two pictures
        alone = [np.concatenate([one[0] for one in alone])[None]]
    axis = -1 if processor.name.startswith("MiniCPM") else 0
    np.testing.assert_array_equal(np.concatenate(alone, axis=axis), values)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_printed_calls(number):
    """The calls that are printed make what the processor makes."""
    processor, picture = processor_of(number, "torchvision"), SMALL[0]
    values = processor(picture)["pixel_values"].reshape(-1)
    names = {"roicy": roicy, "picture": picture, "numpy": np}
    *before, last = processor.calls(*picture.shape[:2])
    for call in before:
        if call.startswith("picture = "):
            exec(call, names)
    made = eval(last[:-1] + ", **common)", names | {"common": processor._options})
    if made.size == values.size and not processor.name.startswith("MiniCPM"):
        np.testing.assert_array_equal(made.reshape(-1), values)
    assert processor.name in repr(processor)
    assert repr(processor).count("roicy.resize(") >= 1


def test_nested():
    """Samples of Idefics3 are lists of pictures, and LLaVA-OneVision shows several once each."""
    nested = [list(SMALL[:2]), [SMALL[2]]]
    number = next(i for i, (name, _) in enumerate(CASES) if name.startswith("SmolVLM"))
    got = processor_of(number, "torchvision")(nested)
    assert len(got["pixel_values"]) == len(got["pixel_attention_mask"]) == 2
    batches = [np.stack([SMALL[0]] * 2), np.stack([SMALL[1]])]  # each of which is a sample
    assert processor_of(number, "torchvision")(batches)["pixel_values"].shape[:2] == (2, 2)
    one = roicy.ImageProcessor.from_config({"image_processor_type": "LlavaOnevisionImageProcessor"})
    assert one(nested)["batch_num_images"].tolist() == [2, 1]
    assert one([batches[0], SMALL[1]])["batch_num_images"].tolist() == [1, 1, 1]
    assert one(nested)["pixel_values"].shape[:2] == (3, one([SMALL[2]])["pixel_values"].shape[1])


def test_pictures_of_pillow():
    """Modes become RGB, on white, and arrays may have their channels first."""
    pytest.importorskip("PIL.Image")
    processor = roicy.ImageProcessor.from_config({"image_processor_type": "CLIPImageProcessor"})
    want = processor(noise(40, 50))["pixel_values"]
    for one in (image_of(noise(40, 50)), np.moveaxis(noise(40, 50), 2, 0), [noise(40, 50)]):
        np.testing.assert_array_equal(processor(one)["pixel_values"], want)
    grey = noise(40, 50, 1)
    want = processor(np.repeat(grey, 3, axis=2))["pixel_values"]
    for one in (grey, grey[..., 0], image_of(grey)):
        np.testing.assert_array_equal(processor(one)["pixel_values"], want)
    clear = np.concatenate([noise(40, 50), np.zeros((40, 50, 1), np.uint8)], axis=2)
    white = processor(np.full((40, 50, 3), 255, np.uint8))["pixel_values"]
    for one in (clear, image_of(clear)):
        np.testing.assert_array_equal(processor(one)["pixel_values"], white)


def test_files(tmp_path):
    config = {"feature_extractor_type": "CLIPFeatureExtractor", "size": 224, "crop_size": 224}
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps(config))
    want = repr(roicy.ImageProcessor.from_config(config))
    assert repr(roicy.ImageProcessor.from_config(path)) == want
    assert repr(roicy.ImageProcessor.from_config(str(tmp_path))) == want
    within = {"image_processor": {"image_processor_type": "SiglipImageProcessorFast"}}
    assert roicy.ImageProcessor.from_config(within).name == "SiglipImageProcessor"
    other = tmp_path / "processor_config.json"  # which comes first if it has an image processor
    for content, found in (({"processor_class": "CLIPProcessor"}, "CLIP"), (within, "Siglip")):
        other.write_text(json.dumps(content))
        one = roicy.ImageProcessor.from_config(tmp_path)
        assert one.name == f"{found}ImageProcessor"


def of(name, **keys):
    """A config of a class."""
    return {"image_processor_type": f"{name}ImageProcessor", **keys}


@pytest.mark.parametrize("name", table.ROWS)
def test_null(name):
    """A flag that is null is not set, as in transformers, which keeps what a config has."""

    def made(flag, value):
        try:
            return repr(
                roicy.ImageProcessor.from_config({"image_processor_type": name, flag: value})
            )
        except ValueError as error:
            return str(error).replace("None", "False")

    for flag, default in table.ROWS[name].defaults.items():
        if default is True:
            assert made(flag, None) == made(flag, False)


def test_changed_config():
    """What a caller does to a config later changes no processor."""
    config = of("LlavaNext", size={"shortest_edge": 40}, image_grid_pinpoints=[[40, 80]])
    processor = roicy.ImageProcessor.from_config(config)
    want = repr(processor)
    config["size"]["shortest_edge"] = config["image_grid_pinpoints"][0][0] = 99
    assert repr(processor) == want


@pytest.mark.parametrize(
    "config, message",
    [
        ({}, "image_processor_type: None, expected one of BeitImageProcessor, BitImageProcessor"),
        ({"image_processor_type": "DINOv3ViTImageProcessor"}, "image_processor_type: 'DINOv3ViT"),
        ({"crop": 3}, "config: crop, expected keys that ViTImageProcessor knows: crop_size, d"),
        ({"input_data_format": "channels_last"}, "config: input_data_format, expected keys that"),
        ({"resample": 0}, "resample: 0, expected 1 (lanczos), 2 (bilinear), 3 (bicubic)"),
        ({"size": {"height": 3}}, "size: {'height': 3}, expected a dict with height and width, or"),
        ({"size": {"height": 3, "width": 0}}, "size['width']: 0, expected an integer from 1"),
        ({"resample": []}, "resample: [], expected an integer"),
        ({"rescale_factor": 0}, "rescale_factor: 0, expected a finite number above 0"),
        ({"image_std": [1, "2", 1]}, "image_std[1]: '2', expected a number"),
        (of("DPT", ensure_multiple_of=0), "ensure_multiple_of: 0, expected an integer from 1"),
        (of("Qwen2VL", max_pixels=2.5), "max_pixels: 2.5, expected an integer"),
        (of("Qwen2VL", max_pixels=9, size=3), "size: 3, expected a dict beside max_pixels"),
        ({"image_mean": [0, float("nan"), 0]}, "image_mean[1]: nan, expected a finite number"),
        ({"do_resize": "false"}, "do_resize: 'false', expected True or False"),
        (
            of("Llava", do_pad=True, image_mean=[9, 0, 0]),
            "image_mean: [9, 0, 0], expected a",
        ),
        (of("ConvNext", do_center_crop=True), "do_center_crop: True, expected False for ConvNext"),
        (of("MiniCPMV4_6", do_resize=False), "do_resize: False, expected True for MiniCPMV4_6"),
        (of("Detr", size={"longest_edge": 9}), "size: {'longest_edge': 9}, expected height and"),
        (of("Blip", do_center_crop=True), "crop_size: None, expected height and width for Blip"),
        (of("MiniCPMV4_6", downsample_mode="8x"), "downsample_mode: '8x', expected '4x' or '16x'"),
        ({"do_normalize": False, "rescale_factor": 2}, "rescale_factor: 2, expected a float, or"),
        (of("Pixtral", patch_size=0), "patch_size['height']: 0, expected an integer from 1"),
        (of("Idefics3", max_image_size={}), "max_image_size: {}, expected a dict with"),
        (of("LlavaNext", image_grid_pinpoints=[3]), "image_grid_pinpoints: [3], expected a list"),
        (of("Gemma3", do_pan_and_scan=True), "pan_and_scan_min_crop_size: None, expected a"),
        (
            of("OwlViT", rescale=True, do_rescale=False),
            "rescale: True, expected that of do_rescale",
        ),
        ("/nowhere", "[Errno 2]"),
        (3, "config: 3, expected a path or a dict"),
    ],
)
def test_wrong_configs(config, message):
    if config and isinstance(config, dict):
        config = {"image_processor_type": "ViTImageProcessor"} | config
    with pytest.raises((TypeError, ValueError, OSError), match=re.escape(message)):
        roicy.ImageProcessor.from_config(config)


def test_one_number_in_a_list():
    """PyTorch takes it for all channels, and NumPy's classes refuse it."""
    config = {"image_processor_type": "CLIPImageProcessor", "size": 32, "crop_size": 32}
    listed, plain = ({**config, "image_mean": m, "image_std": m} for m in ([0.5], 0.5))
    got, want = (roicy.ImageProcessor.from_config(one)(SMALL[0]) for one in (listed, plain))
    np.testing.assert_array_equal(got["pixel_values"], want["pixel_values"])
    with pytest.raises(ValueError, match="expected 1, as image_mean has"):
        roicy.ImageProcessor.from_config(listed, backend="pil")(SMALL[0])


def test_padding_makes_floats():
    """Bytes of Idefics3 that are neither scaled nor normalised become floats if they are padded."""
    keys = {"do_rescale": False, "do_normalize": False, "size": {"longest_edge": 50}}
    for pad, dtype in ((True, np.float32), (False, np.uint8)):
        one = roicy.ImageProcessor.from_config(of("Idefics3", do_pad=pad, **keys))
        assert np.asarray(one(SMALL[0])["pixel_values"][0]).dtype == dtype
    one = roicy.ImageProcessor.from_config(of("Idefics3", **keys), backend="pil")
    for samples, dtype in ((SMALL[:2], np.uint8), ([SMALL[:2], SMALL[:1]], np.float32)):
        assert one(samples)["pixel_values"].dtype == dtype  # where samples differ in length


def test_sizes_that_are_not_equal():
    """What Pillow's class of Gemma 3 does to parts that it does not resize is refused."""
    keys = {f"pan_and_scan_{key}": 2 for key in ("min_crop_size", "max_num_crops")}
    keys |= {"do_pan_and_scan": True, "pan_and_scan_min_ratio_to_activate": 2, "do_resize": False}
    with pytest.raises(ValueError, match="do_resize: False, expected True beside do_pan_and_scan"):
        roicy.ImageProcessor.from_config(of("Gemma3", **keys), backend="pil")


def test_calls_of_no_picture():
    processor = roicy.ImageProcessor.from_config(of("CLIP"))
    with pytest.raises(ValueError, match="height, width: 0, expected an integer from 1"):
        processor.calls(0, 5)


def test_ignored_keys():
    config = of("ViT", of_ours=1, size_divisor=32, device=None)
    assert roicy.ImageProcessor.from_config(config, ignore=("of_ours",)).backend == "torchvision"


@pytest.mark.parametrize(
    "options, message",
    [
        ({"pictures": []}, "pictures: an empty list, expected one picture or more"),
        ({"pictures": [[SMALL[0]], SMALL[0]]}, "pictures: a list of pictures and of lists"),
        ({"pictures": np.zeros((4, 4, 3), np.float32)}, "pictures: an array, dtype float32, expe"),
        ({"pictures": np.zeros((9, 9, 5), np.uint8)}, "pictures: an array of shape (9, 9, 5), "),
        ({"pictures": np.ma.array(SMALL[0])}, "pictures: a masked array, whose mask would be lost"),
        ({"pictures": [None]}, "pictures: builtins.NoneType, expected a numpy.ndarray"),
        ({"pictures": noise(9, 9, 1)}, "pictures: one of 1 channel, expected 3, as image_mean"),
        ({"out": np.zeros((1, 3, 8, 8), np.float32)}, "out: shape (1, 3, 8, 8), expected (1, 3, 2"),
    ],
)
def test_wrong_pictures(options, message):
    processor = roicy.ImageProcessor.from_config({"image_processor_type": "ViTImageProcessor"})
    given = {"pictures": SMALL[0]}
    assert_refused(processor.__call__, given, options, "^" + re.escape(message))


def test_import_is_late():
    """`import roicy` does not import what only image processors need."""
    program = (
        "import roicy, sys; assert 'roicy.processors' not in sys.modules; roicy.ImageProcessor"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        roicy.nothing  # noqa: B018
