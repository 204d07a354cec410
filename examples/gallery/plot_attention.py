"""Where a query looks
===================

Detectors after Deformable DETR have no boxes to pool.  Each of their queries looks at a few points
on each level of a pyramid, and adds what it finds there.  :func:`roicy.deformable_attention` is
that sum.
"""

import matplotlib.cbook
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

import roicy

# %%
# Three levels of a pyramid.  Here a level is the photograph, made smaller, with three channels; a
# network would have 8 heads of 32.  The operator takes the pixels of all levels one after the
# other, as (N, S, M, D), and the shapes that tell where each begins.

with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:
    photo = plt.imread(file, format="jpg")[:576, :512].astype(np.float32) / 255


def shrink(picture, stride):
    """Return the means of squares of stride x stride pixels."""
    height, width, _ = picture.shape
    parts = picture.reshape(height // stride, stride, width // stride, stride, 3)
    return parts.mean(axis=(1, 3))


STRIDES = (8, 16, 32)
levels = [shrink(photo, stride) for stride in STRIDES]
shapes = [level.shape[:2] for level in levels]
value = np.concatenate([level.reshape(1, -1, 1, 3) for level in levels], axis=1)
print("the levels are", shapes, "and the value", value.shape)

# %%
# Three queries of a decoder.  Each has a box (centre, width, height), and 6 points on each level,
# at offsets from the centre.  A network computes offsets and weights from the query.  Here they are
# drawn: small boxes have their largest weights on the fine level, and large boxes on the coarse
# one.

QUERIES = {"medals": (389, 512, 130, 64), "face": (255, 220, 150, 190), "flag": (80, 200, 150, 390)}
BEST = (0, 1, 2)  # the level that fits each
POINTS = 6
rng = np.random.default_rng(4)
form = (len(QUERIES), len(STRIDES), POINTS)
boxes = np.array(list(QUERIES.values()))
cells = np.stack(np.indices((3, 2)), -1).reshape(POINTS, 2) / (3, 2)  # a point in each sixth
offsets = cells[:, ::-1] + rng.uniform(0, 1, (*form, 2)) / (2, 3) - 0.5
places = boxes[:, None, None, :2] + offsets * boxes[:, None, None, 2:]  # pixels of the photograph
locations = places / photo.shape[1::-1]
fits = np.equal.outer(BEST, range(len(STRIDES)))[..., None]
scores = np.exp(rng.standard_normal(form) * 0.6 + 1.8 * fits)
weights = scores / scores.sum(axis=(1, 2), keepdims=True)

sums = roicy.deformable_attention(value, shapes, locations[None, :, None], weights[None, :, None])
print("the sums are", sums.shape)

# %%
# The same call tells what each point reads: with the identity as weights, a query gives one sample.

total = len(STRIDES) * POINTS
each = np.repeat(locations, total, axis=0)[None, :, None]
alone = np.tile(np.eye(total).reshape(total, len(STRIDES), POINTS), (len(QUERIES), 1, 1))
samples = roicy.deformable_attention(value, shapes, each, alone[None, :, None])
samples = samples.reshape(len(QUERIES), total, 3)
by_hand = (samples * weights.reshape(len(QUERIES), total, 1)).sum(axis=1)
print("largest difference to the weighted sum:", np.abs(by_hand - sums[0]).max())

# %%
# The picture: the box of each query, and its points on each level.  Larger points weigh more.
# Below is what they read, as wide as their weight, and the sum.

COLOURS = ("#59c3ff", "#ffd23f", "#ff5a4f")
figure = plt.figure(figsize=(7, 5.4), dpi=160, layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=[1.6, 1])
for i, (stride, one) in enumerate(zip(STRIDES, above.subplots(1, 3), strict=True)):
    one.imshow(levels[i])
    one.set_title(f"stride {stride}", fontsize=14)
    for k, colour in enumerate(COLOURS):
        middle, size = boxes[k].reshape(2, 2) / stride
        corner = middle - size / 2 - 0.5  # pixel i is drawn at i
        one.add_patch(Rectangle(corner, *size, fill=False, edgecolor=colour, linewidth=1))
        x, y = (places[k, i] / stride - 0.5).T
        sizes = 900 * weights[k, i]
        one.scatter(x, y, sizes, color=colour, alpha=0.7, edgecolor="black", linewidth=0.7)
    one.set(xticks=[], yticks=[])
bars, results = below.subplots(1, 2, sharey=True, width_ratios=[6, 1])
for k in range(len(QUERIES)):
    wide = weights[k].ravel()
    left = wide.cumsum() - wide
    bars.barh(np.full(total, k), wide, left=left, color=samples[k].clip(0, 1), height=0.7)
    results.barh(k, 1, color=sums[0, k].clip(0, 1), height=0.7)
bars.set_title("what the points read", fontsize=14)
results.set_title("the sum", fontsize=14)
bars.set_yticks(range(len(QUERIES)), list(QUERIES), fontsize=14)
for tick, colour in zip(bars.get_yticklabels(), COLOURS, strict=True):
    tick.set_bbox({"facecolor": colour, "edgecolor": "none", "boxstyle": "round,pad=0.2"})
bars.invert_yaxis()
for one in (bars, results):
    one.set_xticks([])
    one.spines[:].set_visible(False)
    one.tick_params(length=0)
plt.show()
