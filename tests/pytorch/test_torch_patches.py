"""What roicy.torch exchanges of other projects, what it leaves alone, and who ends it."""

import ast
import contextlib
import functools
import importlib
import importlib.resources
import importlib.util
import inspect
import logging
import sys
from pathlib import Path

import numpy as np
import pytest
from attended import SHAPES

torch = pytest.importorskip("torch")
rt = pytest.importorskip("roicy.torch")
from torch_calls import assert_threads_pass, plant, tensors  # noqa: E402

from roicy.torch import _attention, _models, _patches  # noqa: E402

NAME = "multi_scale_deformable_attn_pytorch"
GIVEN = "value, value_spatial_shapes, sampling_locations, attention_weights"
MODULES = {
    "mmcv": ("mmcv.ops.multi_scale_deform_attn", NAME),
    "groundingdino": ("groundingdino.models.GroundingDINO.ms_deform_attn", NAME),
    "detrex": ("detrex.layers.multi_scale_deform_attn", NAME),
    "rfdetr": ("rfdetr.models.ops.functions.ms_deform_attn_func", "ms_deform_attn_core_pytorch"),
    "ultralytics": ("ultralytics.nn.modules.utils", NAME),
    "transformers": ("transformers.models.mine.modeling_mine", "MultiScaleDeformableAttention"),
}
REAL = {"mmcv": "", "rfdetr": "rfdetr/utilities/tensors.py", "ultralytics": ""}


@contextlib.contextmanager
def counted(monkeypatch):
    """Give the list of calls of roicy's operator."""
    calls = []
    original = _attention.of_numpy.compute
    with monkeypatch.context() as patch:
        patch.setattr(
            _attention.of_numpy, "compute", lambda *given: calls.append(given) or original(*given)
        )
        yield calls


def attention(value, shapes, locations, weights):
    """Sample each level by grid_sample, as the projects do."""
    given = (value, [tuple(map(int, shape)) for shape in shapes], locations.flatten(3, 4))
    points = [locations.shape[4]] * len(shapes)
    return _attention._by_grid_sample(
        *given, weights.flatten(3), points, "bilinear", "zeros", False
    )


def standing_in(monkeypatch, source, name=MODULES["mmcv"][0]):
    return plant(monkeypatch, name, source, attention=attention, functools=functools, torch=torch)


def definitions(path):
    """Return the code of a file's functions, with what it imports of PyTorch."""
    tree = ast.parse(Path(path).read_text())
    tree.body = [
        one
        for one in tree.body
        if isinstance(one, ast.FunctionDef)
        or (isinstance(one, ast.Import) and one.names[0].name.startswith("torch"))
        or (isinstance(one, ast.ImportFrom) and one.module.split(".")[0] in ("torch", "__future__"))
    ]
    return compile(tree, str(path), "exec")


def real(monkeypatch, project):
    """Return a module with the definitions of the package, which is not imported."""
    spec = importlib.util.find_spec(project)
    if spec is None:
        pytest.skip(f"{project} is not installed")
    folder, name = Path(spec.submodule_search_locations[0]).parent, MODULES[project][0]
    module = plant(monkeypatch, name)
    for file in (REAL[project], f"{name.replace('.', '/')}.py"):
        if file:
            exec(definitions(folder / file), vars(module))
    return module


@pytest.mark.parametrize("kind", ["mmcv", "rfdetr", "ultralytics", "groundingdino", "detrex"])
def test_projects(kind, rng, monkeypatch):
    """Definitions of the packages, where PyPI has them, have roicy's results in a context."""
    if kind in REAL:
        module = real(monkeypatch, kind)
    else:
        source = f"def {NAME}({GIVEN}):\n    return attention({GIVEN})"
        module = standing_in(monkeypatch, source, MODULES[kind][0])
    function = getattr(module, MODULES[kind][1])
    user = plant(monkeypatch, "a_model", function=function)
    value, locations, weights, grad = tensors(rng)
    shapes = torch.tensor(SHAPES)
    calls = [(value, shapes, locations, weights)]
    if kind == "ultralytics":
        calls = [(value, SHAPES, locations.flatten(3, 4), weights.flatten(3))]
    if kind == "rfdetr":
        first = value.permute(0, 2, 3, 1).contiguous()
        calls = [
            (first, shapes, locations, weights.flatten(3)),
            (first, None, locations.flatten(3, 4), weights.flatten(3), SHAPES),
        ]
    code, defaults = function.__code__, function.__defaults__
    expected = [function(*given) for given in calls]
    with counted(monkeypatch) as made, rt.install(kind):
        assert inspect.signature(function).parameters.keys() == {*inspect.getargs(code).args}
        del made[:]  # those of the comparison
        for given, right in zip(calls, expected, strict=True):
            leaf = given[0].clone().requires_grad_()
            out = user.function(leaf, *given[1:])
            torch.testing.assert_close(out, right, rtol=0, atol=1e-12)
            out.backward(grad)
            assert leaf.grad.any()
        assert len(made) == len(calls)
    assert (function.__code__, function.__defaults__) == (code, defaults)


DEFINITION = f"def {NAME}({GIVEN}):\n    return "
OTHERS = {
    "a factor": f"{DEFINITION}3 * attention({GIVEN})",
    "other channels": f"{DEFINITION}attention({GIVEN}).flip(2)",
    "another type": f"{DEFINITION}attention({GIVEN}).float()",
    "a parameter more": f"def {NAME}({GIVEN}, factor=3):\n    return attention({GIVEN}) * factor",
    "a keyword": f"def {NAME}({GIVEN}, *, factor=3):\n    return attention({GIVEN}) * factor",
    "any keywords": f"def {NAME}({GIVEN}, **given):\n    return attention({GIVEN})",
    "a closure": (
        f"{DEFINITION}attention({GIVEN})\ndef wrap(f):\n    @functools.wraps(f)\n"
        f"    def g(*given):\n        return 3 * f(*given)\n    return g\n{NAME} = wrap({NAME})"
    ),
    "a closure with the names": (
        f"def make(factor):\n    def {NAME}({GIVEN}):\n        return attention({GIVEN}) * factor\n"
        f"    return {NAME}\n{NAME} = make(1)"
    ),
    "no function": f"{NAME} = functools.partial(attention)",
}


@pytest.mark.parametrize("which", OTHERS)
def test_what_is_not_known(which, rng, monkeypatch, caplog):
    """What has a known name in a known module, and is something else, stays as it is."""
    module = standing_in(monkeypatch, OTHERS[which])
    function = getattr(module, NAME)
    value, locations, weights, _ = tensors(rng, np.float32)
    given = (value, torch.tensor(SHAPES), locations, weights)
    code, before = getattr(function, "__code__", None), function(*given)
    with caplog.at_level(logging.INFO, "roicy.torch"), rt.patch_mmcv():
        assert getattr(function, "__code__", None) is code
        assert torch.equal(function(*given), before)
    assert [one.levelname for one in caplog.records] == ["WARNING"] * (code is not None)


def test_other_modules(rng, monkeypatch):
    """The names of functions and classes alone do not count, nor do those of modules."""
    known = standing_in(monkeypatch, f"{DEFINITION}attention({GIVEN})", "a_project.attention")
    query_first = (
        "class MultiScaleDeformableAttention(torch.nn.Module):\n"
        f"    def forward(self, query, {GIVEN}):\n        return query"
    )
    others = [known, standing_in(monkeypatch, query_first, MODULES["groundingdino"][0])]
    others.append(standing_in(monkeypatch, query_first, "transformers.models.mine.modeling_mine"))
    others.append(plant(monkeypatch, MODULES["mmcv"][0], **{NAME: getattr(known, NAME)}))

    def codes():
        found = [vars(module)[name] for module in others for name in names & {*vars(module)}]
        return [(one.forward if isinstance(one, type) else one).__code__ for one in found]

    names = {NAME, "MultiScaleDeformableAttention"}
    before = codes()
    with rt.install():
        assert codes() == before
    assert len(before) == 4


@pytest.fixture
def known(monkeypatch):
    """A function that mmcv's patch exchanges."""
    return getattr(standing_in(monkeypatch, f"{DEFINITION}attention({GIVEN})"), NAME)


def test_contexts_overlap(known, monkeypatch):
    """The last context that ends ends the patch, in whatever order they do."""
    code, finders = known.__code__, list(sys.meta_path)
    first, second = rt.patch_mmcv(), rt.patch_mmcv()
    first.__enter__()
    second.__enter__()
    stands = known.__code__
    assert stands is not code
    first.__exit__(None, None, None)
    assert known.__code__ is stands
    with pytest.raises(ZeroDivisionError), rt.patch_mmcv():
        raise ZeroDivisionError
    assert known.__code__ is stands
    second.__exit__(None, None, None)
    assert known.__code__ is code
    assert sys.meta_path == finders
    with rt.patch_mmcv():
        assert known.__code__ is stands  # and so what compilers have made of it holds
        known.__code__ = attention.__code__
    assert known.__code__ is attention.__code__  # others' changes are not undone


def test_an_error_on_the_way(known, monkeypatch):
    """Where a context cannot begin, nothing stays of it."""
    before = known.__code__, known.__defaults__, known.__kwdefaults__

    def interrupt(level, text):
        assert known.__code__ is not before[0]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_patches, "log", interrupt)
        for begin in (lambda: rt.patch_mmcv().__enter__(), lambda: rt.install("mmcv")):
            with pytest.raises(KeyboardInterrupt):
                begin()
            assert (known.__code__, known.__defaults__, known.__kwdefaults__) == before
            assert not any(one.wanted for one in _patches.PROJECTS.values())


def test_threads(known, rng):
    """Threads that begin and end contexts do not disturb each other."""
    value, locations, weights, _ = tensors(rng)
    given = (value, torch.tensor(SHAPES), locations, weights)
    code, expected = known.__code__, known(*given)

    def work():
        for _ in range(40):
            with rt.patch_mmcv():
                assert known.__code__ is not code
                torch.testing.assert_close(known(*given), expected, rtol=0, atol=1e-12)
            torch.testing.assert_close(known(*given), expected, rtol=0, atol=1e-12)

    assert_threads_pass(work)
    assert known.__code__ is code


def test_imported_meanwhile(tmp_path, monkeypatch):
    """A module that is imported while its project is patched is patched, and restored."""
    folder = tmp_path / "detrex" / "layers"
    folder.mkdir(parents=True)
    for place in (folder.parent, folder):
        (place / "__init__.py").touch()
    module, name = MODULES["detrex"]
    source = f"from test_torch_patches import attention\n{DEFINITION}attention({GIVEN})\n"
    (folder / "multi_scale_deform_attn.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    for place in ("detrex", "detrex.layers", module):
        monkeypatch.delitem(sys.modules, place, raising=False)
    with rt.install("detrex"):
        assert module not in sys.modules
        found = importlib.import_module(module)
        assert getattr(found, name).__code__.co_filename == _models.__file__
        assert found.__loader__ is found.__spec__.loader
        assert type(found.__loader__) is importlib.machinery.SourceFileLoader
    assert getattr(found, name).__code__.co_filename == found.__file__
    for place in ("detrex", "detrex.layers", module):
        del sys.modules[place]


def test_install(known):
    code = known.__code__
    with rt.install():
        stands = known.__code__
        assert stands is not code
        with rt.install("mmcv"), rt.patch_mmcv():
            pass
        assert known.__code__ is stands
    assert known.__code__ is code
    rt.install("mmcv")
    with rt.patch_mmcv():
        rt.uninstall()
        assert known.__code__ is stands
    rt.uninstall()
    assert known.__code__ is code
    with pytest.raises(ValueError, match="^projects: 'mmdet', expected one of transformers, mmcv"):
        rt.install("mmdet")
    with pytest.raises(ModuleNotFoundError, match="^detrex is not installed"):
        rt.install("mmcv", "detrex")
    assert known.__code__ is code


@pytest.mark.parametrize("is_method", [False, True])
def test_compiled(is_method, rng, monkeypatch):
    """What was compiled before a context, in it or after it computes the same."""
    project = "transformers" if is_method else "mmcv"
    value, locations, weights, _ = tensors(rng, np.float32)
    tail = "level_start_index, sampling_locations, attention_weights, im2col_step"
    names = f"self, value, value_spatial_shapes, value_spatial_shapes_list, {tail}"
    own = GIVEN.replace("shapes", "shapes_list")
    by_method = (
        "class MultiScaleDeformableAttention(torch.nn.Module):\n"
        f"    def forward({names}):\n        return attention({own})"
    )
    source = by_method if is_method else f"{DEFINITION}attention({GIVEN})"
    module = standing_in(monkeypatch, source, MODULES[project][0])
    layer = getattr(module, MODULES[project][1])
    layer = layer() if is_method else layer

    def model(value, locations, weights):
        if is_method:
            return layer(value, None, SHAPES, None, locations, weights, 64).sin()
        return layer(value, SHAPES, locations, weights).sin()

    def compiled():
        return torch.compile(lambda *given: model(*given), backend="eager", fullgraph=True)

    given = (value, locations, weights)
    right, before, inside = model(*given), compiled(), compiled()
    torch.testing.assert_close(before(*given), right)
    with counted(monkeypatch) as calls, rt.install(project):
        del calls[:]
        torch.testing.assert_close(before(*given), right)
        assert is_method or len(calls) == 1  # compilers do not look at methods again
        torch.compiler.reset()
        del calls[:]
        torch.testing.assert_close(inside(*given), right)
        assert len(calls) == 1
    with counted(monkeypatch) as calls:
        for one in (before, inside, compiled()):
            torch.testing.assert_close(one(*given), right)
        assert len(calls) == 3 * is_method  # a function's code is looked at in each call


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("wide", ["bfloat16", "float32"])
def test_types(autocast, wide, rng, known):
    """The result has the type that the project's has, in autocast and of types that differ."""
    value, locations, weights, _ = (one.bfloat16() for one in tensors(rng))
    given = (value, torch.tensor(SHAPES), locations, weights.to(getattr(torch, wide)))
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        expected = known(*given)
        with rt.patch_mmcv():
            found = known(*given)
    assert found.dtype is expected.dtype
    torch.testing.assert_close(found, expected, rtol=0, atol=0.1)  # theirs rounds each product


def small_model(name):
    """Return a detector of few layers with random weights."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    few = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "num_queries": 9}
    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1],
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    if name == "DeformableDetr":
        config = transformers.DeformableDetrConfig(
            backbone_config=backbone, use_timm_backbone=False, backbone=None, encoder_ffn_dim=16,
            decoder_ffn_dim=16, encoder_attention_heads=4, decoder_attention_heads=4, **few,
        )  # fmt: skip
        return transformers.DeformableDetrForObjectDetection(config).eval()
    backbone = transformers.RTDetrResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1],
        layer_type="basic", out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    sizes = {
        "backbone_config": backbone, "encoder_in_channels": [16, 16, 24], "encoder_hidden_dim": 32,
        "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "decoder_in_channels": [32, 32, 32],
        "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    }  # fmt: skip
    if name == "DFine":
        sizes["decoder_n_points"] = [3, 6, 3]
    config = getattr(transformers, f"{name}Config")(**sizes, **few)
    return getattr(transformers, f"{name}ForObjectDetection")(config).eval()


@pytest.mark.parametrize("name", ["DeformableDetr", "RTDetr", "RTDetrV2", "DFine"])
def test_models_of_transformers(name, monkeypatch):
    """Models that were made before have the same results, and their own functions afterwards."""
    model, image = small_model(name), torch.rand(2, 3, 64, 96)
    with torch.no_grad():  # no points on pixels, where a gradient has two values
        for one in model.parameters():
            one.add_(torch.randn_like(one), alpha=0.02)

    def outputs():
        found = model(pixel_values=image)
        loss = found.logits.square().sum() + found.pred_boxes.sum()
        model.zero_grad()
        loss.backward()
        grads = [one.grad.flatten() for one in model.parameters() if one.grad is not None]
        return [found.logits, found.pred_boxes, torch.cat(grads)]

    with counted(monkeypatch) as calls:
        expected = outputs()
        assert not calls
        with rt.patch_transformers():
            del calls[:]
            found = outputs()
        assert len(calls) >= 2
        del calls[:]
        again = outputs()
        assert not calls
    for a, b, c in zip(expected, found, again, strict=True):
        bound = float(a.detach().abs().max())
        torch.testing.assert_close(b, a, rtol=0, atol=1e-4 * bound)
        assert torch.equal(a, c)


def fallbacks():
    """Return the modules of transformers that compute it, by their text, and the functions."""
    transformers = pytest.importorskip("transformers")
    folder = importlib.resources.files(transformers) / "models"
    for file in sorted(folder.rglob("modeling_*.py")):
        if "sampling_value_list.append" in file.read_text():
            inner = ".".join(file.relative_to(folder).with_suffix("").parts)
            yield importlib.import_module(f"transformers.models.{inner}")


def test_all_models_of_transformers(rng, monkeypatch):
    """Whatever samples values of levels is replaced, and put back."""
    value, locations, weights, _ = tensors(rng, np.float32)
    expected = rt.deformable_attention(value, SHAPES, locations, weights)
    modules = list(fallbacks())
    assert len(modules) >= 10

    functions = []
    for module in modules:
        names = {*vars(module)} & {*_patches.PROJECTS["transformers"].names}
        assert names
        found = [getattr(module, name) for name in names]
        functions += [one.forward if isinstance(one, type) else one for one in found]
    before = [(function, function.__code__) for function in functions]
    with counted(monkeypatch) as calls, rt.patch_transformers():
        del calls[:]  # those of the comparison
        for function, code in before:
            names = code.co_varnames[: code.co_argcount]
            given = {
                "self": None, "value": value, "value_spatial_shapes": torch.tensor(SHAPES),
                "value_spatial_shapes_list": SHAPES, "sampling_locations": locations,
                "attention_weights": weights, "num_points_list": [4, 4, 4], "method": "default",
            }  # fmt: skip
            if "num_points_list" in names:
                given["sampling_locations"] = locations.flatten(3, 4)
                given["attention_weights"] = weights.flatten(3)
            out = function(*(given.get(name) for name in names))
            assert torch.equal(out, expected)
        assert len(calls) == len(before)
    assert all(function.__code__ is code for function, code in before)


def test_discrete_stays(rng):
    pytest.importorskip("transformers")
    from transformers.models.rt_detr_v2 import modeling_rt_detr_v2 as module

    value, locations, weights, _ = tensors(rng, np.float32)
    given = (value, SHAPES, locations.flatten(3, 4), weights.flatten(3), [4, 4, 4], "discrete")
    expected = module.multi_scale_deformable_attention_v2(*given)
    with rt.patch_transformers():
        assert torch.equal(module.multi_scale_deformable_attention_v2(*given), expected)
        meta = module.multi_scale_deformable_attention_v2(
            *(one.to("meta") if isinstance(one, torch.Tensor) else one for one in given[:5])
        )
        assert meta.shape == expected.shape
