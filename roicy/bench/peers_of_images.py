"""What the benchmark times beside crop, resize and masks: OpenCV, Pillow, torchvision, PyTorch and
COCO's coder.
"""

from __future__ import annotations

import numpy as np

from . import peers_of_labels
from .workloads import MEAN, STD, CropWorkload, LabelWorkload, ResizeWorkload


class OpenCV:
    """A loop over boxes, or over maps, as people who care for speed write it.

    That over boxes writes to arrays that it has made once, resizes or warps a box, separates the
    channels, and scales each of them into the batch.
    """

    package, takes = "cv2", (CropWorkload, LabelWorkload)

    def __init__(self, threads):
        import cv2

        cv2.setNumThreads(threads)
        self.cv2, self.name = cv2, f"opencv {cv2.__version__}"

    def filling(self, workload, boxes, patch):
        """Return a function that brings box k of a frame to `patch`."""
        cv2, size = self.cv2, patch.shape[1::-1]
        if workload.kind == "upright":
            corners = boxes.astype(int).tolist()
            how = cv2.INTER_AREA if workload.antialias else cv2.INTER_LINEAR

            def resize(frame, k):
                x1, y1, x2, y2 = corners[k]
                cv2.resize(frame[y1:y2, x1:x2], size, dst=patch, interpolation=how)

            return resize
        warp, matrices = cv2.warpAffine, boxes
        if workload.kind == "corners":
            warp, (width, height) = cv2.warpPerspective, size
            target = np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float32) - 0.5
            sources = (boxes - 0.5).astype(np.float32)
            matrices = [cv2.getPerspectiveTransform(source, target) for source in sources]
        return lambda frame, k: warp(frame, matrices[k], size, dst=patch, flags=cv2.INTER_LINEAR)

    def prepare(self, workload, arrays, direction):
        if isinstance(workload, LabelWorkload):
            return peers_of_labels.of_opencv(self.cv2, workload, arrays)
        cv2, (height, width) = self.cv2, workload.size
        batch = np.zeros((workload.count, 3, height, width), np.float32)
        top = 0
        if workload.fit == "letterbox":  # of a frame of 1080 x 1920
            height = width * 9 // 16
            top = (workload.size[0] - height) // 2
            batch[...] = (-MEAN / STD).reshape(3, 1, 1)
        out = batch[:, :, top : top + height]
        bgr = np.empty((1080, 1920, 3), np.uint8)
        patch = np.empty((height, width, 3), np.uint8)
        planes = [np.empty((height, width), np.uint8) for _ in range(3)]
        scale, bias = (1 / 255 / STD).astype(np.float32), (-MEAN / STD).astype(np.float32)
        fill = self.filling(workload, arrays["boxes"], patch)

        def loop():
            frame = arrays["frame"]
            if workload.color:
                frame = cv2.cvtColor(frame, cv2.COLOR_YUV2BGR_NV12, dst=bgr)
            for k in range(workload.count):
                fill(frame, k)
                cv2.split(patch, planes)
                for c in range(3):
                    np.multiply(planes[2 - c], scale[c], out=out[k, c])
                    np.add(out[k, c], bias[c], out=out[k, c])
            return batch

        return loop


class Pillow:
    """Pillow's filter and NumPy's normalisation, as the image processors of transformers have them.
    It uses one thread.
    """

    package, takes = "PIL", ResizeWorkload

    def __init__(self, threads):
        import PIL.Image

        self.images, self.name = PIL.Image, f"pillow {PIL.__version__}"

    def prepare(self, workload, arrays, direction):
        images, (height, width) = self.images, workload.size
        mean, std = MEAN.astype(np.float32), STD.astype(np.float32)
        patch, merge, repeat = (
            workload.patches.get(key, 1) for key in ("patch", "merge", "repeat")
        )
        group = patch * merge

        def resize():
            picture = images.fromarray(arrays["frame"])
            pixels = np.asarray(picture.resize((width, height), images.Resampling.BICUBIC))
            planes = (((pixels * (1 / 255)).astype(np.float32) - mean) / std).transpose(2, 0, 1)
            if not workload.patches:
                return planes[None]
            frames = np.broadcast_to(planes, (repeat, *planes.shape))
            rows = (height // group, merge, patch, width // group, merge, patch)
            patches = frames.reshape(repeat, 3, *rows).transpose(2, 5, 3, 6, 1, 0, 4, 7)
            return patches.reshape(1, -1, 3 * repeat * patch * patch)

        return resize


def pasted_masks(torch, workload, arrays):
    """Return a call of torchvision's images of masks, or None without pycocotools, which codes
    them.

    torchvision returns values, which its users compare with a threshold themselves.  So this is
    timed too where roicy returns booleans or codes.
    """
    from torchvision.models.detection.roi_heads import paste_masks_in_image

    if workload.result == "yolo":
        return mixed_masks(torch, workload, arrays)
    masks = torch.from_numpy(arrays["masks"])[:, None]
    boxes = torch.from_numpy(arrays["boxes"])

    def values():
        return paste_masks_in_image(masks, boxes, workload.image_shape)[:, 0].numpy()

    if workload.result == "rle":
        return peers_of_labels.coded(lambda: values() >= 0.5)
    return values if workload.result == "values" else lambda: values() >= 0.5


def mixed_masks(torch, workload, arrays):
    """Return a call that mixes whole masks, resizes them to the image and cuts them."""
    planes, weights, boxes = map(torch.from_numpy, arrays.values())
    (count, *size), (height, width) = planes.shape, workload.image_shape
    gain = min(size[0] / height, size[1] / width)
    top, left = (int((n - m * gain) / 2) for n, m in zip(size, (height, width), strict=True))
    x1, y1, x2, y2 = boxes.T[:, :, None, None]
    x, y = torch.arange(width), torch.arange(height)[:, None]

    def masks():
        mixed = (weights @ planes.reshape(count, -1)).reshape(1, -1, *size)
        shown = mixed[..., top : size[0] - top, left : size[1] - left]
        resized = torch.nn.functional.interpolate(shown, (height, width), mode="bilinear")[0]
        inside = (x >= x1) & (x < x2) & (y >= y1) & (y < y2)
        return ((resized > 0) & inside).numpy()

    return masks
