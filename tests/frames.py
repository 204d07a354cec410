"""Frames and boxes for tests of crops."""

import numpy as np

BOXES = [
    (2, 3, 21, 17),  # whole pixels, inside
    (1.25, 2.5, 30.75, 9.125),  # fractions
    (-7.5, -3, 12.25, 40),  # beyond the frame on three sides
    (20, 15, 3.5, 4),  # inverted: a mirror
    (5.5, 6.25, 5.5, 12),  # no area
    (60, -20, 90, -3),  # off the frame
    (-1e9, -2e9, 1e9, 1e9),
    (8, 8, 8.75, 9.5),  # less than a pixel
]


FRAME = (23, 37)  # height and width


def views_of(frame):
    """Yield equal frames (H, W, C) that lie in memory in other ways."""
    height, width, channels = frame.shape
    yield np.asfortranarray(frame)
    yield np.ascontiguousarray(frame.transpose(2, 0, 1)).transpose(1, 2, 0)  # planes
    yield np.flip(np.flip(frame, (0, 1)).copy(), (0, 1))
    yield frame[..., ::-1].copy()[..., ::-1]
    yield np.repeat(frame, 2, axis=1)[:, ::2]
    for first, more in ((1, 2), (0, 1), (0, 0)):  # spaced, some of the channels, padded rows
        memory = np.zeros((height, width + 5, channels + more), frame.dtype)
        view = memory[:, 2:-3, first : first + channels]
        view[...] = frame
        yield view
    locked = frame.copy()
    locked.flags.writeable = False
    yield locked


def frame_of(dtype, channels=3, extent=FRAME, seed=0):
    numbers = np.random.default_rng(seed).uniform(0, 255, (*extent, channels))
    return (numbers * 200 if dtype == "uint16" else numbers).astype(dtype)


CORNERS = [
    [(3, 2), (30, 5), (28, 20), (5, 18)],
    [(10, 4), (20, 4), (20, 12), (10, 12)],  # upright
    [(-6, -3), (15, 1), (40, 30), (2, 12)],  # partly off the frame
    [(4, 4), (30, 18), (30, 4), (4, 19)],  # they cross
]
