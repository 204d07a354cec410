"""Make network input in processes of their own, which import neither torch nor transformers.

    python examples/preprocessing_server.py                    # a demonstration
    python examples/preprocessing_server.py preprocessor_config.json --workers 2

A model's process that also decodes and resizes pictures waits for one core.  Here workers take
files of pictures, and put `pixel_values` into shared memory, where the model's process reads them
without a copy.  A slot of this memory belongs to a request until its answer was used.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import queue
import sys
import time
from multiprocessing import shared_memory
from typing import Any

import numpy as np

import roicy

CONFIG = {
    "image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136, "max_pixels": 1003520,
}  # fmt: skip
SLOT = 64 << 20  # bytes of pixel_values that a request may have


def work(config: Any, names: list[str], requests: Any, answers: Any) -> None:
    """Answer requests (number, slot, files) until there is None.

    An answer is (number, shape of pixel_values, what belongs to them), or (number, None, why not).
    """
    from PIL import Image

    processor = roicy.ImageProcessor.from_config(config)
    roicy.set_num_threads(1)  # there are as many workers as cores should be busy
    slots = [shared_memory.SharedMemory(name) for name in names]
    while (request := requests.get()) is not None:
        number, slot, files = request
        try:
            pictures = [Image.open(io.BytesIO(file)) for file in files]
            found = processor(pictures)
            values = found.pop("pixel_values")
            if values.nbytes > SLOT:
                raise ValueError(f"{values.nbytes} bytes, expected at most {SLOT}")
            np.ndarray(values.shape, values.dtype, slots[slot].buf)[...] = values
            answers.put((number, values.shape, found))
        except Exception as error:  # of one request, which others do not pay for
            answers.put((number, None, f"{type(error).__name__}: {error}"))
    answers.put("torch" in sys.modules or "transformers" in sys.modules)


class Preprocessor:
    """Workers, and the memory that they write."""

    def __init__(self, config: Any, workers: int):
        # A fresh process has not what this one imported, such as torch.
        context = multiprocessing.get_context("spawn")
        self.requests, self.answers = context.Queue(), context.Queue()
        self.slots = [
            shared_memory.SharedMemory(create=True, size=SLOT) for _ in range(2 * workers)
        ]
        names = [slot.name for slot in self.slots]
        given = (config, names, self.requests, self.answers)
        self.workers = [
            context.Process(target=work, args=given, daemon=True) for _ in range(workers)
        ]
        for worker in self.workers:
            worker.start()

    def send(self, number: int, slot: int, files: list[bytes]) -> None:
        """Have files made network input, in a slot that nobody uses."""
        self.requests.put((number, slot, files))

    def receive(self, timeout: float) -> tuple[int, Any, Any]:
        """Return the next answer, of any request."""
        return self.answers.get(timeout=timeout)

    def values(self, slot: int, shape: tuple[int, ...]) -> np.ndarray:
        """Return the numbers of a slot, where they lie: what a session of ONNX Runtime takes."""
        return np.ndarray(shape, np.float32, self.slots[slot].buf)

    def close(self) -> bool:
        """End the workers; return whether one of them has imported torch."""
        for _ in self.workers:
            self.requests.put(None)
        heavy = [self.answers.get(timeout=60) for _ in self.workers]
        for worker in self.workers:
            worker.join(60)
        for slot in self.slots:
            slot.close()
            slot.unlink()
        return any(heavy)


def photographs(count: int) -> list[bytes]:
    """Return files of pictures."""
    from PIL import Image

    files = []
    for i in range(count):
        y, x = np.mgrid[: 480 + 40 * (i % 5), : 640 + 30 * (i % 7)]
        shapes = [128 + 100 * np.sin(x / (9 + i)) * np.cos(y / (7 + c)) for c in range(3)]
        file = io.BytesIO()
        Image.fromarray(np.stack(shapes, axis=-1).astype(np.uint8)).save(file, "PNG")
        files.append(file.getvalue())
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("config", nargs="?", default=CONFIG, help="preprocessor_config.json")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--requests", type=int, default=40)
    options = parser.parse_args()
    from PIL import Image

    files = photographs(options.requests)
    here = roicy.ImageProcessor.from_config(options.config)
    server = Preprocessor(options.config, options.workers)
    free = list(range(len(server.slots)))
    slots: dict[int, int] = {}
    waiting, differ, start = list(range(len(files))), 0, time.perf_counter()
    while waiting or slots:
        while waiting and free:
            number = waiting.pop(0)
            slots[number] = free.pop()
            server.send(number, slots[number], [files[number]])
        try:
            number, shape, found = server.receive(60)
        except queue.Empty:
            sys.exit("no worker answers")
        slot = slots.pop(number)
        if shape is None:
            sys.exit(f"request {number}: {found}")
        values = server.values(slot, shape)  # session.run(None, {"pixel_values": values}) now
        want = here(Image.open(io.BytesIO(files[number])))["pixel_values"]
        differ += np.count_nonzero(values != want)
        del values
        free.append(slot)
    took = time.perf_counter() - start
    heavy = server.close()
    print(f"{len(files)} requests by {options.workers} workers in {took:.2f} s")
    print(f"{differ} numbers differ; torch was {'' if heavy else 'not '}imported by a worker")


if __name__ == "__main__":
    main()
