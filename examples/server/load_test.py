"""
Sends requests to the server on this machine: good ones for its times, and malformed ones.

    python load_test.py http://127.0.0.1:8000 --seconds 20 --clients 4
"""

from __future__ import annotations

import argparse
import io
import struct
import threading
import time
import zlib

import httpx
import numpy as np
from PIL import Image


def photograph(height: int, width: int, kind: str = "JPEG") -> bytes:
    """Return an image of noise."""
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def png_of(width: int, height: int) -> bytes:
    """Return a PNG whose header tells these extents, and that has hardly any data."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + header + data


def malformed() -> dict[str, bytes]:
    """Return uploads that have to be refused, by what they are."""
    good = photograph(120, 160)
    return {
        "nothing": b"",
        "text": b"this is no image",
        "a truncated JPEG": good[: len(good) // 2],
        "a JPEG without its end of header": good[:20],
        "a truncated PNG": photograph(120, 160, "PNG")[:4000],
        "100 megapixels": png_of(10000, 10000),
        "2**31 pixels a side": png_of(2**31 - 1, 2**31 - 1),
        "0 x 0": png_of(0, 0),
        "a GIF": b"GIF89a" + bytes(40),
        "too many bytes": bytes(17 << 20),
    }


def check_refusals(url: str) -> int:
    """Send malformed uploads; return how many were not answered by 4xx."""
    wrong = 0
    with httpx.Client(timeout=60) as client:
        for name, data in malformed().items():
            for form in (False, True):
                given = {"files": {"image": data}} if form else {"content": data}
                answer = client.post(f"{url}/detect", **given)
                refused = 400 <= answer.status_code < 500
                wrong += not refused
                print(f"{name:34} {answer.status_code} {answer.text[:70]}")
        answer = client.post(f"{url}/detect", data={"image": "text"})
        wrong += not 400 <= answer.status_code < 500
        headers = {"content-type": "multipart/form-data; boundary=x"}
        answer = client.post(f"{url}/detect", content=b"--y--", headers=headers)
        wrong += not 400 <= answer.status_code < 500
        assert client.post(f"{url}/detect", content=photograph(120, 160)).status_code == 200
    return wrong


def load(url: str, seconds: float, clients: int, size: tuple[int, int]) -> None:
    """Send good requests from some clients, and print their times."""
    data, times, failed = photograph(*size), [], []
    stop = time.monotonic() + seconds

    def client() -> None:
        with httpx.Client(timeout=120) as one:
            while time.monotonic() < stop:
                start = time.perf_counter()
                try:
                    answer = one.post(f"{url}/detect", content=data)
                    (times if answer.status_code == 200 else failed).append(
                        time.perf_counter() - start
                    )
                except httpx.HTTPError as error:
                    failed.append(error)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.perf_counter() - start
    p50, p99 = np.percentile(times, [50, 99]) if times else (np.nan, np.nan)
    print(
        f"{len(times)} answers, {len(failed)} failed, {len(times) / taken:.2f} a second, "
        f"p50 {1000 * p50:.0f} ms, p99 {1000 * p99:.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--size", nargs=2, type=int, default=[224, 288])
    options = parser.parse_args()
    wrong = check_refusals(options.url)
    print(f"{wrong} malformed uploads were not refused")
    load(options.url, options.seconds, options.clients, tuple(options.size))
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
