"""Processors of transformers have their own results within patch_transformers, of less work."""

import importlib
import inspect
from types import SimpleNamespace

import numpy as np
import pytest

import roicy
from roicy._machine import _dispatch

torch = pytest.importorskip("torch")
rt = pytest.importorskip("roicy.torch")
from torch_calls import assert_threads_pass, plant  # noqa: E402

from roicy.torch import _enlarged, _models  # noqa: E402

interpolate = torch.nn.functional.interpolate


def is_exact(*counts):
    """Whether PyTorch rounds as roicy does, for numbers of maps."""
    is_alone = torch.get_num_threads() == 1
    return all([_enlarged._is_exact(count, is_alone) for count in counts])


EXACT = is_exact(1, 2, 4, 5)
SEMANTIC, INSTANCE, PANOPTIC, MASKS = _models.POST_PROCESSING
SIZES = [(150, 203), (97, 120)]


def smooth(shape, seed=0, scale=6.0):
    """Return maps (..., h, w) that are smooth, with some noise."""
    made = torch.Generator().manual_seed(seed)
    coarse = torch.randn((int(np.prod(shape[:-2])), 1, 5, 6), generator=made)
    maps = interpolate(coarse, shape[-2:], mode="bicubic").reshape(shape)
    return scale * maps + torch.randn(shape, generator=made)


def maps_of_classes():
    return SimpleNamespace(logits=smooth((2, 19, 24, 31)), semantic_seg=smooth((2, 1, 24, 31)))


def queries():
    """Outputs of 30 queries; some have a class with a large score."""
    made = torch.Generator().manual_seed(1)
    masks, classes = smooth((2, 30, 25, 33), 1, 3.0), torch.randn((2, 30, 9), generator=made)
    classes[:, ::3, 1:4] += 6
    classes[:, 1::3, -1] += 6
    return SimpleNamespace(
        logits=classes, pred_masks=masks, class_queries_logits=classes, masks_queries_logits=masks,
        patch_offsets=[], pred_logits=classes[..., 0], presence_logits=None,
        pred_boxes=torch.rand((2, 30, 4), generator=made),
    )  # fmt: skip


FAMILIES = {  # modules of transformers.models, methods, outputs, and arguments beside the sizes
    "maps": (
        "beit chmv2 dpt mobilenet_v2 mobilevit sapiens2 sam3 segformer tipsv2_dpt",
        SEMANTIC, maps_of_classes, {},
    ),
    "queries": (
        "conditional_detr detr eomt maskformer mask2former oneformer videomt",
        SEMANTIC, queries, {},
    ),
    "instances": ("maskformer mask2former", INSTANCE, queries, {"threshold": 0.3}),
    "binary": (
        "maskformer mask2former rf_detr", INSTANCE, queries,
        {"threshold": 0.3, "return_binary_maps": True},
    ),
    "other instances": ("conditional_detr detr eomt rf_detr sam3 videomt", INSTANCE, queries, {}),
    "panoptic": (
        "conditional_detr detr eomt maskformer mask2former oneformer videomt", PANOPTIC, queries,
        {"threshold": 0.3, "overlap_mask_area_threshold": 0.2},
    ),
}  # fmt: skip


def processors(folder):
    """Return processors of a module of transformers that is there."""
    pytest.importorskip("transformers")
    found = []
    for kind in ("image_processing", "image_processing_pil", "video_processing"):
        try:
            module = importlib.import_module(f"transformers.models.{folder}.{kind}_{folder}")
        except ModuleNotFoundError:
            continue
        for own in vars(module).values():
            if isinstance(own, type) and own.__module__ == module.__name__:
                if any(name in vars(own) for name in _models.POST_PROCESSING):
                    # OneFormer's would read a file from a hub.
                    found.append(own.__new__(own) if folder == "oneformer" else own())
    if not found:
        pytest.skip(f"this version of transformers has no {folder}")
    return found


def assert_same(found, expected):
    """Check values and types."""
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif hasattr(expected, "keys"):
        assert list(found) == list(expected)
        for name in expected:
            assert_same(found[name], expected[name])
    else:
        assert found == expected


@pytest.fixture
def enlarged(monkeypatch):
    """Sizes of what PyTorch enlarged after all."""
    sizes = []
    original = _enlarged._Call.enlarge

    def enlarge(call):
        if call.real is None:
            sizes.append(call.size)
        return original(call)

    monkeypatch.setattr(_enlarged._Call, "enlarge", enlarge)
    return sizes


CASES = [(name, folder) for name, row in FAMILIES.items() for folder in row[0].split()]
# What is enlarged for sums over pixels, or by other functions: see docs/pytorch.md.
ENLARGED = {
    ("queries", "eomt"), ("queries", "mask2former"), ("instances", "mask2former"),
    ("binary", "mask2former"), ("other instances", "eomt"), ("other instances", "videomt"),
    ("panoptic", "eomt"), ("panoptic", "videomt"), ("panoptic", "mask2former"),
}  # fmt: skip


@pytest.mark.parametrize(("family", "folder"), CASES)
def test_processors(family, folder, enlarged):
    _, method, outputs, given = FAMILIES[family]
    for processor in processors(folder):
        if not hasattr(type(processor), method):
            continue
        call = getattr(processor, method)
        expected = call(outputs(), target_sizes=SIZES, **given)
        with rt.patch_transformers():
            code = inspect.unwrap(getattr(type(processor), method)).__code__
            assert code.co_filename == _models.__file__
            assert_same(call(outputs(), target_sizes=SIZES, **given), expected)
            if EXACT and (family, folder) not in ENLARGED:
                assert enlarged == []
            with torch.inference_mode():
                assert_same(call(outputs(), target_sizes=SIZES, **given), expected)
        if method == INSTANCE or method == PANOPTIC:
            assert any(one.get("segments_info", one.get("scores")) is not None for one in expected)


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("given", [{}, {"mask_threshold": 0.7}, {"binarize": False}, "arrays"])
@pytest.mark.parametrize("folder", ["sam", "sam2", "sam2_video", "sam3"])
def test_prompts(folder, given, threads, enlarged):
    """On one thread PyTorch may have another order for three maps, and then enlarges them."""
    for processor in processors(folder):
        if not hasattr(type(processor), MASKS):
            continue
        maps = [smooth((5, 3, 32, 32)), smooth((2, 1, 32, 32), 1)]
        named = {"original_sizes": torch.tensor(SIZES)}
        if "reshaped_input_sizes" in inspect.signature(processor.post_process_masks).parameters:
            named["reshaped_input_sizes"] = [[110, 150], [150, 100]]
            named["pad_size"] = {"height": 150, "width": 150}
        named |= given if isinstance(given, dict) else {}

        def compute(call=processor.post_process_masks, maps=maps, named=named):
            return call([one.numpy() if given == "arrays" else one for one in maps], **named)

        expected = compute()
        with rt.patch_transformers():
            code = inspect.unwrap(type(processor).post_process_masks).__code__
            assert code.co_filename == _models.__file__
            assert_same(compute(), expected)
        if EXACT and "binarize" in given:
            assert enlarged != []
        elif is_exact(1, 3):
            assert enlarged == []
        assert expected[0].to(bool).any()


@pytest.mark.skipif(_dispatch.ISA == "baseline", reason="PyTorch rounds fused products")
def test_exact():
    """Both have fused multiply-adds where the processor has them."""
    assert EXACT == (torch.backends.cpu.get_cpu_capability() != "DEFAULT")


def test_numbers_of_maps(threads):
    """What is taken has PyTorch's bits, for all numbers of maps."""
    for count in range(1, 9):
        maps = smooth((2, count, 13, 17)).contiguous()
        found = roicy.label_map(maps.numpy(), (131, 90), values=True)[1]
        if is_exact(min(count, 5)):
            expected = interpolate(maps, (131, 90), mode="bilinear").amax(1)
            np.testing.assert_array_equal(found, expected)


def segformer():
    return processors("segformer")[0]


CHANGES = {  # of the maps, and whether PyTorch enlarges them
    "float64": (lambda maps: maps.double(), True),
    "bfloat16": (lambda maps: maps.bfloat16(), True),
    "channels last": (lambda maps: maps.to(memory_format=torch.channels_last), True),
    "gradients": (lambda maps: maps.requires_grad_(), True),
    "strides": (lambda maps: maps.mT, True),
    "negative": (lambda maps: torch._neg_view(maps), True),
    "a subclass": (lambda maps: maps.as_subclass(type("Mine", (torch.Tensor,), {})), True),
    "ties": (lambda maps: maps.round(), False),
    "not finite": (
        lambda maps: torch.where(maps > 5, float("nan"), torch.where(maps < -5, np.inf, maps)),
        False,
    ),
    "one map": (lambda maps: maps[:, :1].contiguous(), False),
    "one column": (lambda maps: maps[..., :1].contiguous(), False),
    "one number": (lambda maps: maps[..., :1, :1].contiguous(), True),
}  # fmt: skip


@pytest.mark.parametrize("which", CHANGES)
def test_maps(which, monkeypatch):
    change, is_left = CHANGES[which]
    calls, original = [], _enlarged._masks.label_map
    monkeypatch.setattr(
        _enlarged._masks, "label_map", lambda *a, **k: calls.append(a) or original(*a, **k)
    )
    outputs = SimpleNamespace(logits=change(smooth((2, 7, 24, 31))))
    # how many of them are larger than the maps
    cases = {2: SIZES, 1: [(60, 68), (150, 150)]}
    for sizes in (*cases.values(), torch.tensor(SIZES), [[12, 200]] * 2, None):
        for given in ({}, {"return_segmentation_scores": True}):
            expected = compute_or_error(outputs, sizes, given)
            del calls[:]
            with rt.patch_transformers():
                assert_same(compute_or_error(outputs, sizes, given), expected)
            for count, known in cases.items():
                if EXACT and sizes is known:
                    assert len(calls) == (0 if is_left else count)


def compute_or_error(outputs, sizes, given):
    try:
        return segformer().post_process_semantic_segmentation(outputs, sizes, **given)
    except Exception as error:  # whichever it is
        return type(error), str(error)


def test_attributes():
    """No name of tensors is another thing of a waiting tensor."""
    own = {name for name in vars(_enlarged.Enlarged) if not name.startswith("__")}
    assert not own & {*dir(torch.Tensor)}
    assert not any(hasattr(torch.Tensor, name) for name in _enlarged.Enlarged.__annotations__)


LEFT = {  # changes of maps, arguments of interpolate, and what is said
    "float16": (lambda maps: maps.half(), {}, "torch.float16 is rounded in another way"),
    "bfloat16": (lambda maps: maps.bfloat16(), {}, "torch.bfloat16 is rounded in another way"),
    "strides": (lambda maps: maps.mT, {}, "torch.float32 is rounded in another way"),
    "gradients": (lambda maps: maps.requires_grad_(), {}, "need gradients"),
    "corners": (lambda maps: maps, {"align_corners": True}, "arguments that roicy does not take"),
    "nearest": (lambda maps: maps.mT, {"mode": "nearest"}, "their channels lie together"),
}


@pytest.mark.parametrize("which", LEFT)
def test_what_is_left_is_told(which, caplog):
    change, given, said = LEFT[which]
    _enlarged._tell.cache_clear()
    with caplog.at_level("INFO", "roicy"):
        for _ in range(2):
            maps, given = change(smooth((2, 7, 24, 31))), {"mode": "bilinear", **given}
            _enlarged.call(interpolate, maps, (150, 151), **given)
    (told,) = [one.getMessage() for one in caplog.records]
    assert told.startswith("maps are enlarged by PyTorch: ")
    assert said in told


def test_all_numbers_are_told(caplog):
    _enlarged._tell.cache_clear()
    with caplog.at_level("INFO", "roicy"):
        _enlarged.call(interpolate, smooth((2, 7, 24, 31)), (150, 151), mode="bilinear")
    assert len(caplog.records) == EXACT


INEXACT = {  # maps that PyTorch rounds otherwise, and the share of labels that may differ
    "float16": (lambda maps: maps.half(), 0.003),
    "bfloat16": (lambda maps: maps.bfloat16(), 0.02),
    "float64": (lambda maps: maps.double(), 0),
    "strides": (lambda maps: maps.mT.contiguous().mT, 1e-4),
    "channels last": (lambda maps: maps.to(memory_format=torch.channels_last), 1e-4),
}


@pytest.mark.parametrize("which", INEXACT)
def test_inexact(which, enlarged):
    """Labels of all types and strides are those of their numbers in float32 or float64."""
    change, most = INEXACT[which]
    maps = change(smooth((2, 7, 24, 31)))
    wide = torch.promote_types(maps.dtype, torch.float32)
    sizes, process = [(150, 203), (60, 44)], segformer().post_process_semantic_segmentation
    expected = process(SimpleNamespace(logits=maps), sizes)
    with rt.patch_transformers(), rt.patch_transformers(exact=False):
        found = process(SimpleNamespace(logits=maps), sizes)
        with rt.patch_transformers():  # another one does not end it
            assert_same(process(SimpleNamespace(logits=maps), sizes), found)
    assert not enlarged
    for i, one in enumerate(found):
        values = interpolate(maps[i : i + 1].to(wide).contiguous(), sizes[i], mode="bilinear")[0]
        reached = values.gather(0, one[None])[0]
        torch.testing.assert_close(reached, values.amax(0), rtol=0, atol=1e-5)
        assert (one != expected[i]).float().mean() <= most
    with rt.patch_transformers():
        assert_same(process(SimpleNamespace(logits=maps), sizes), expected)


@pytest.mark.parametrize("family", ["queries", "instances", "panoptic"])
def test_inexact_queries(family, enlarged):
    """Numbers of bfloat16 that are multiplied and compared, too."""
    _, method, make, given = FAMILIES[family]
    outputs = make()
    for name, value in vars(outputs).items():
        if isinstance(value, torch.Tensor):
            setattr(outputs, name, value.bfloat16())
    process = getattr(processors("maskformer")[0], method)
    expected = process(outputs, target_sizes=SIZES, **given)
    with rt.patch_transformers(exact=False):
        found = process(outputs, target_sizes=SIZES, **given)
    for one, other in zip(found, expected, strict=True):
        one, other = (x if isinstance(x, torch.Tensor) else x["segmentation"] for x in (one, other))
        assert one.dtype is other.dtype
        assert (one != other).float().mean() < 0.02


def test_inexact_is_installed():
    project = rt._patches.PROJECTS["transformers"]
    pytest.importorskip("transformers")
    with rt.install("transformers"), rt.install("transformers", exact=False):
        assert (project.wanted, project.inexact) == (2, 1)
        rt.install("transformers", exact=False)
        assert (project.wanted, project.inexact) == (2, 1)
    assert (project.wanted, project.inexact) == (0, 0)


@pytest.mark.parametrize("sizes", [SIZES[:1], [(0, 200)] * 2, [(-3, 200)] * 2, [(9.5, 200)] * 2, 7])
def test_errors(sizes):
    outputs = SimpleNamespace(logits=smooth((2, 7, 24, 31)))
    expected = compute_or_error(outputs, sizes, {})
    assert isinstance(expected, tuple)
    with rt.patch_transformers():
        assert compute_or_error(outputs, sizes, {}) == expected


NAME = "transformers.models.mine.image_processing_mine"
PROGRAMS = {  # what a definition may do with enlarged maps
    "numbers": "big.numpy().sum(), big[0].tolist()[3][2][:5]",
    "functions": "torch.stack([big, big * 2]), torch.cat([big[0], big[1]]), big.mean(1), +big",
    "itself": "big",
    "views": "big[0], big[:, 1], big[1, 2, 5:], big[..., :60, :70], big[0, ..., 3], big.squeeze(1)",
    "a dictionary": "{'one': big[0], 'two': [big.argmax(1)]}",
    "axes": "big.argmax(1), big.argmax(-3), big[0].argmax(0), big[0].argmax(1), big.argmax()",
    "more arguments": "big.argmax(1, keepdim=True), big.squeeze(), torch.gt(big, other=1)",
    "thresholds": "big > 0.1, big >= 1, big[1] > torch.tensor(0.5), big > True, 2 < big",
    "no number": "big > float('nan'), big > 1e39, big >= float('inf'), big == 1",
    "products": "big.mul_(weights), big.argmax(1), big[0].argmax(0), big[1, 2] >= 0.3, big",
    "products of one": (
        "one := big[0], one.__imul__(weights[0]), one.argmax(0), one[2] > 0.25, one[4] >= 0, big"
    ),
    "large products": "big.mul_(3 * weights), big[0].argmax(0), big",
    "two products": "big.mul_(weights), big.mul_(weights), big[0].argmax(0), big[1, 2] > 0.3",
    "changes": "view := big[1], big.add_(1), view, big[1, 3] > 0.5",
    "changes of views": "big[0].mul_(2), big, big.argmax(1), big[0].zero_(), big > 1",
    "changes of maps": "maps.mul_(-1), big[0].argmax(0), big > 0.5",
    "changes of views of maps": "maps[0].__setitem__(0, 9), big.argmax(1)",
    "out": "torch.add(maps, 1, out=maps), big.argmax(1)",
    "two out": "torch.max(maps, 1, out=(maps[:, 0], index)), big.argmax(1)",
    "in place": "functional.relu(maps, inplace=True), big.argmax(1), functional.relu_(maps)",
    "twice": "functional.interpolate(big[..., :99, :120], (300, 151), mode='bilinear') > 0.2",
    "twice, and a change": (
        "again := functional.interpolate(big, (300, 151), mode='bilinear'), big.add_(1), again > 1"
    ),
    "twice, and products": (
        "big.mul_(weights), functional.interpolate(big, (300, 151), mode='bilinear') > 0.2"
    ),
    "twice, smaller": (
        "functional.interpolate(functional.interpolate(maps, (9, 150), mode='bilinear'),"
        " (150, 160), mode='bilinear') > 0.2"
    ),
    "nearest": (
        "near := functional.interpolate(maps.round(), (151, 203)), near == 1, near[0, 1] == 0,"
        " (near == 1).all(), torch.all(near[1, 2] == 1), near > 0, near.argmax(1),"
        " near.all(1), near.all(dim=0), mask.masked_fill_(near[0, 0] == 1, 3)"
    ),
    "nearest, smaller": (
        "near := functional.interpolate((maps > -9).float(), (5, 300)), (near == 1).all(),"
        " near.bool()"
    ),
    "masks": "mask.__setitem__(big[0, 0] > 0, 5), mask, (big[0, 1] > 0).sum(), (big > 0).sum(1)",
    "attributes": (
        "big.view(-1), big.view(torch.int32), big.view(2, -1), big.real, big[0].view(-1),"
        " big.data, big.mT, big.H if big.dim() == 2 else 0, big.stride(), big.is_contiguous(),"
        " big.box if hasattr(big, 'box') else 0, big.requires_grad, big.grad_fn, big.itemsize"
    ),
    "changes of lists": "torch._foreach_mul_([maps], 2.0), big.argmax(1), big > 0.5",
    "changes of lists by name": "torch._foreach_add_(self=[maps[0]], scalar=2.0), big > 0.5",
    "changes of data": "maps.data.mul_(-1), big.argmax(1), big > 0.5",
    "changes of operators": "torch.ops.aten.mul_.Scalar(maps, -1), big > 0.5",
    "changes of data that is set": "setattr(maps, 'data', -maps), big > 0.5",
    "changes of arrays": (
        "(array := maps.numpy()).sum(), array.__imul__(-1).sum(), big.argmax(1),"
        " functional.interpolate(maps, (150, 151), mode='bilinear')[:1] + array.__imul__(-2).sum()"
    ),
    "changes of arrays, before": (
        "(array := maps.numpy()).sum(), (late := functional.interpolate(maps, (150, 151),"
        " mode='bilinear'))[0, 0, 0, 0], array.__imul__(-1).sum(), late > 0.5"
    ),
    "changes of arrays by others": "np.asarray(maps).__imul__(-1).sum(), big.argmax(1), big > 0.5",
    "changes within functions": (
        "functional.batch_norm(torch.ones(4, 31), maps[0, 0, 0], maps[0, 0, 1].abs(), None, None,"
        " True), big.argmax(1), late := functional.interpolate(maps, (150, 151), mode='bilinear'),"
        " functional.embedding(torch.tensor([1]), maps[0, 0], max_norm=0.1), late > 0.5"
    ),
    "changes of a batch": "torch.vmap(lambda one: one.mul_(-1))(maps), big.argmax(1)",
    "changes of DLPack": "np.from_dlpack(maps).max(), big.argmax(1)",
    "copies": "copy.deepcopy(big), pickle.loads(pickle.dumps(big)), repr(big), len(big)",
    "other calls": (
        "functional.interpolate(maps, scale_factor=6, mode='bilinear').argmax(1),"
        " functional.interpolate(maps, (150, 151), mode='bilinear', align_corners=True).argmax(1),"
        " functional.interpolate(maps, (150, 151), mode='bilinear', antialias=True).argmax(1),"
        " functional.interpolate(maps, (150, 151), mode='bicubic').argmax(1),"
        " functional.interpolate(maps[0], 150, mode='linear').argmax(1),"
        " functional.interpolate(maps, 150, mode='bilinear').argmax(1)"
    ),
}  # fmt: skip
DEFINITION = f"""
import copy
import numpy as np
import pickle
import torch
from torch.nn import functional

class Processor:
    def {SEMANTIC}(self, outputs, target_sizes=None, *, weights=None, **more):
        maps, mask = outputs.logits.clone(), torch.zeros(151, 203)
        index = torch.zeros((2, 24, 31), dtype=torch.int64)
        big = functional.interpolate(maps, (151, 203), mode="bilinear", align_corners=False)
        return [{{}}]
"""


@pytest.mark.parametrize("which", PROGRAMS)
def test_programs(which, monkeypatch):
    """Whatever a definition does, it has the results of its own code."""
    pytest.importorskip("transformers")
    module = plant(monkeypatch, NAME, DEFINITION.format(PROGRAMS[which]))
    call = getattr(module.Processor(), SEMANTIC)
    made = torch.Generator().manual_seed(2)
    weights = torch.rand((2, 6, 1, 1), generator=made)
    outputs = SimpleNamespace(logits=smooth((2, 6, 24, 31)))

    def compute():
        with torch.no_grad():
            return call(outputs, weights=weights, target_sizes=None, more=1)

    expected = compute()
    with rt.patch_transformers():
        assert getattr(module.Processor, SEMANTIC).__code__.co_filename == _models.__file__
        assert_same(compute(), expected)
    assert getattr(module.Processor, SEMANTIC).__code__.co_filename == "<string>"


OTHERS = {
    "another name": "class A:\n    def post_process(self, outputs, target_sizes): return 1",
    "other parameters": "class A:\n    def {name}(self, maps, target_sizes): return 1",
    "no sizes": "class A:\n    def {name}(self, outputs, threshold): return 1",
    "by position": "class A:\n    def {name}(self, outputs, target_sizes, /): return 1",
    "a closure": (
        "class A:\n    def {name}(self, outputs, target_sizes): return __class__\n"
    ),
    "a static method": "class A:\n    {name} = staticmethod(lambda outputs, target_sizes: 1)",
    "another object": "class A:\n    {name} = len",
    "a function": "def {name}(self, outputs, target_sizes): return 1",
    "no class": "class A: pass\n{name} = A()",
}  # fmt: skip


@pytest.mark.parametrize("which", OTHERS)
def test_what_is_not_known(which, monkeypatch):
    pytest.importorskip("transformers")
    module = plant(monkeypatch, NAME, OTHERS[which].format(name=SEMANTIC))

    def contents():
        found = {**vars(module), **vars(getattr(module, "A", object))}
        return [(name, one, getattr(one, "__code__", None)) for name, one in found.items()]

    before = contents()
    with rt.patch_transformers():
        assert contents() == before


def test_other_modules(monkeypatch):
    """Classes of the same names elsewhere, and those that a module imports, stay as they are."""
    pytest.importorskip("transformers")
    source = DEFINITION.format("big")
    elsewhere = plant(monkeypatch, "mine.models.segformer.image_processing_segformer", source)
    beside = plant(monkeypatch, "transformers.models.mine.processing_mine", source)
    importing = plant(monkeypatch, NAME, Processor=elsewhere.Processor)
    derived = type("Derived", (segformer().__class__,), {})
    before = [getattr(one.Processor, SEMANTIC).__code__ for one in (elsewhere, beside, importing)]
    with rt.patch_transformers():
        own = (elsewhere, beside, importing)
        assert [getattr(one.Processor, SEMANTIC).__code__ for one in own] == before
        # What is inherited is the same function.
        assert getattr(derived, SEMANTIC).__code__.co_filename == _models.__file__


def test_contexts(monkeypatch):
    """Threads enter and leave, and an error leaves nothing behind."""
    processor = segformer()
    code = getattr(type(processor), SEMANTIC).__code__
    outputs = SimpleNamespace(logits=smooth((1, 7, 24, 31)))
    expected = processor.post_process_semantic_segmentation(outputs, SIZES[:1])

    def work():
        for _ in range(20):
            with rt.patch_transformers():
                found = processor.post_process_semantic_segmentation(outputs, SIZES[:1])
            assert_same(found, expected)

    assert_threads_pass(work)
    assert getattr(type(processor), SEMANTIC).__code__ is code
    with pytest.raises(ZeroDivisionError), rt.patch_transformers():
        1 / 0  # noqa: B018
    with pytest.raises(AttributeError), rt.patch_transformers():
        processor.post_process_semantic_segmentation(None, SIZES)
    assert getattr(type(processor), SEMANTIC).__code__ is code
    assert torch.overrides._get_current_function_mode() is None
    assert type(interpolate(outputs.logits, (150, 200), mode="bilinear")) is torch.Tensor


def test_other_rounding(monkeypatch):
    """Where PyTorch rounds in another way, it enlarges."""
    monkeypatch.setattr(_enlarged, "_is_exact", lambda count, is_alone: False)
    monkeypatch.setattr(_enlarged, "Enlarged", None)
    outputs = SimpleNamespace(logits=smooth((2, 7, 24, 31)))
    expected = segformer().post_process_semantic_segmentation(outputs, SIZES)
    with rt.patch_transformers():
        assert_same(segformer().post_process_semantic_segmentation(outputs, SIZES), expected)


WEIGHTS = [0.5, 1, 0.1, 0.7, 0.9]


@pytest.mark.parametrize(
    ("name", "given", "dtype"),
    [
        ("label_map", {}, torch.int64),
        ("label_map", {"values": True}, torch.int64),
        ("label_map", {"values": True, "dtype": torch.int16}, torch.int16),
        ("label_map", {"weights": WEIGHTS}, torch.int64),
        ("label_map", {"weights": np.float32(WEIGHTS)}, torch.int64),
        ("label_map", {"weights": torch.tensor(WEIGHTS)}, torch.int64),
        ("label_segments", {"codes": True}, torch.int64),
        ("resize_masks", {"via": (30, 30)}, torch.bool),
        ("resize_masks", {"format": "rle"}, None),
    ],
)
def test_functions(name, given, dtype):
    """Functions on tensors are those on arrays, with PyTorch's types, and fill a tensor."""
    maps, function = smooth((2, 5, 9, 7)), getattr(rt, name)

    def parts(found):
        return list(found) if isinstance(found, tuple) else [found]

    of_arrays = {key: value for key, value in given.items() if key != "dtype"}
    if "weights" in given:
        of_arrays["weights"] = np.float32(given["weights"])
    expected = parts(getattr(roicy, name)(maps.numpy(), (60, 41), **of_arrays))
    strided = maps.transpose(0, 1).contiguous().transpose(0, 1)
    for view in (strided, maps.clone().requires_grad_(), maps):
        found = parts(function(view, (60, 41), **given))
        for one, other in zip(found, expected, strict=True):
            if isinstance(one, torch.Tensor):
                np.testing.assert_array_equal(one, other)
            else:
                assert one == other
    if dtype is not None:
        assert found[0].dtype is dtype
        out = torch.zeros_like(found[0])
        assert parts(function(maps, (60, 41), **given, out=out))[0] is out
        assert torch.equal(out, found[0])


def test_small_types():
    maps = smooth((2, 5, 9, 7)).bfloat16()
    labels, values = rt.label_map(maps, (60, 41), values=True)
    assert torch.equal(labels, rt.label_map(maps.float(), (60, 41)))
    assert values.dtype is torch.float32


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("label_map", {"maps": np.ones((3, 4, 5))}, "maps: numpy.ndarray, expected a torch.Tensor"),
        ("label_map", {"dtype": np.int64}, "dtype: <class 'numpy.int64'>, expected a torch.dtype"),
        ("label_map", {"dtype": torch.float32}, "dtype: 'float32', expected a type of integers"),
        ("label_map", {"dtype": torch.bool}, "dtype: 'bool', expected a type of integers"),
        ("label_map", {"dtype": torch.int8, "threshold": 1}, "dtype: int8, expected a type that"),
        ("label_segments", {"out": np.ones((6, 7))}, "out: numpy.ndarray, expected a torch.Tensor"),
        ("resize_masks", {"threshold": None}, "threshold: None, expected a number"),
    ],
)  # fmt: skip
def test_wrong_arguments(name, given, message):
    given = {"maps": torch.ones((3, 4, 5)), "size": (6, 7), **given}
    with pytest.raises((TypeError, ValueError)) as caught:
        getattr(rt, name)(given.pop("maps"), given.pop("size"), **given)
    assert str(caught.value).startswith(message)


def test_changes_by_torchscript(monkeypatch):
    """They are not seen before they happen, so they are refused."""
    pytest.importorskip("transformers")
    module = plant(monkeypatch, NAME, DEFINITION.format("change(maps), big.argmax(1)"))
    module.change = torch.jit.script(_negate)
    outputs = SimpleNamespace(logits=smooth((2, 6, 24, 31)))
    with rt.patch_transformers(), pytest.raises(RuntimeError, match="pass their clone"):
        getattr(module.Processor(), SEMANTIC)(outputs)


def _negate(x: torch.Tensor):
    return x.neg_()
