"""Sends requests to the server on this machine: good ones for its times, and malformed ones.

    python load_test.py http://127.0.0.1:8000 --seconds 20 --clients 4
    python load_test.py http://127.0.0.1:8000 --seconds 1800 --clients 32 --malformed 10 \
        --watch PID --kill 900

PID is the process of the server that started the workers.  Once a minute the clients pause, and the
memory and the open files of each worker are printed; where memory grows, or files, there is a leak.
After 900 seconds one worker is killed.  Clients that are turned away by 503 come again after as
many seconds as the answer says.  An answer other than the first one is wrong.  Of several servers,
each has its turn --rounds times:

    python load_test.py http://127.0.0.1:8000 http://127.0.0.1:8001 --rounds 3
"""

from __future__ import annotations

import argparse
import io
import itertools
import os
import random
import signal
import struct
import threading
import time
import zlib
from pathlib import Path

import httpx
import numpy as np
from PIL import Image


def photograph(height: int, width: int, kind: str = "JPEG", **options: bool) -> bytes:
    """Return an image of noise."""
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **options)
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
    good, scans = photograph(120, 160), photograph(8, 8, progressive=True)
    last, end = scans[scans.rindex(b"\xff\xda") : -2], scans[-2:]
    return {
        "nothing": b"",
        "text": b"this is no image",
        "a truncated JPEG": good[: len(good) // 2],
        "a JPEG without its end of header": good[:20],
        "a JPEG of 1000 scans": scans[:-2] + 1000 * last + end,
        "a truncated PNG": photograph(120, 160, "PNG")[:4000],
        "100 megapixels": png_of(10000, 10000),
        "2**31 pixels a side": png_of(2**31 - 1, 2**31 - 1),
        "0 x 0": png_of(0, 0),
        "a GIF": b"GIF89a" + bytes(40),
        "too many bytes": bytes(17 << 20),
    }


def refused(answer: httpx.Response) -> bool:
    return 400 <= answer.status_code < 500


def wait(url: str, seconds: float = 60) -> None:
    """Wait until the server answers."""
    end = time.monotonic() + seconds
    while True:
        try:
            httpx.get(f"{url}/health")
            return
        except httpx.ConnectError:
            if time.monotonic() > end:
                raise SystemExit(f"{url}: no server answers") from None
            time.sleep(0.2)


def check_refusals(url: str) -> int:
    """Send malformed uploads; return how many were not answered by 4xx."""
    wrong = 0
    with httpx.Client(timeout=60) as client:
        for name, data in malformed().items():
            for form in (False, True):
                given = {"files": {"image": data}} if form else {"content": data}
                answer = client.post(f"{url}/detect", **given)
                wrong += not refused(answer)
                way = "form" if form else "raw"
                print(f"{name:34} {way:4} {answer.status_code} {answer.text[:70]}")
        answer = client.post(f"{url}/detect", data={"image": "text"})
        wrong += not refused(answer)
        headers = {"content-type": "multipart/form-data; boundary=x"}
        answer = client.post(f"{url}/detect", content=b"--y--", headers=headers)
        wrong += not refused(answer)
        assert client.post(f"{url}/detect", content=photograph(120, 160)).status_code == 200
    return wrong


class Load:
    """Clients that send requests, and what came of them.

    Parameters
    ----------
    url : str
    size : (int, int)
        Height and width of the good images.
    rate : float
        Requests a second of each client, at most; 0 if it sends the next one at once.
    every : int
        One of so many requests is malformed; 0 if none is.
    """

    def __init__(self, url: str, size: tuple[int, int], rate: float, every: int):
        self.url, self.rate, self.every = url, rate, every
        self.good, self.bad = photograph(*size), itertools.cycle(malformed().values())
        self.times: list[float] = []
        self.refusals = self.turned_away = 0
        self.expected: bytes | None = None
        self.going = threading.Event()
        self.going.set()
        self.failed: dict[str, int] = {}  # by the status, or the error of the connection
        self.lock = threading.Lock()

    def client(self, stop: float) -> None:
        with httpx.Client(timeout=120) as one:
            for number in itertools.count(1):
                self.going.wait()
                start = time.monotonic()
                if start >= stop:
                    return
                is_bad = self.every > 0 and number % self.every == 0
                self.send(one, is_bad)
                if self.rate:
                    time.sleep(max(0.0, start + 1 / self.rate - time.monotonic()))

    def send(self, one: httpx.Client, is_bad: bool) -> None:
        with self.lock:
            data = next(self.bad) if is_bad else self.good
        start = time.perf_counter()
        try:
            answer = one.post(f"{self.url}/detect", content=data)
            is_right = refused(answer) if is_bad else answer.status_code == 200
            error = f"status {answer.status_code} of a {'bad' if is_bad else 'good'} image"
        except httpx.HTTPError as problem:
            answer, is_right, error = None, False, type(problem).__name__
        if answer is not None and answer.status_code == 503 and "retry-after" in answer.headers:
            with self.lock:
                self.turned_away += 1
            # Those that were turned away together do not come back together.
            time.sleep(float(answer.headers["retry-after"]) * random.uniform(0.5, 1.5))
            return
        with self.lock:
            if is_right and not is_bad:
                self.expected = self.expected or answer.content
                is_right, error = answer.content == self.expected, "a wrong answer"
            if not is_right:
                self.failed[error] = self.failed.get(error, 0) + 1
            elif is_bad:
                self.refusals += 1
            else:
                self.times.append(time.perf_counter() - start)

    def run(self, options: argparse.Namespace) -> None:
        """Send requests, and print what came of them."""
        seconds, clients, watched = options.seconds, options.clients, options.watch
        start = time.monotonic()
        if options.kill:
            threading.Timer(options.kill, kill_one, [watched]).start()
        threads = [
            threading.Thread(target=self.client, args=(start + seconds,)) for _ in range(clients)
        ]
        for thread in threads:
            thread.start()
        while watched is not None and time.monotonic() < start + seconds:
            time.sleep(min(60.0, max(0.0, start + seconds - time.monotonic())))
            self.going.clear()
            time.sleep(options.rest)
            passed = f"{time.monotonic() - start:.0f} s: {len(self.times)} answers"
            print(f"{passed}; {workers(watched)}", flush=True)
            self.going.set()
        for thread in threads:
            thread.join()
        taken = time.monotonic() - start
        p50, p99 = np.percentile(self.times, [50, 99]) if self.times else (np.nan, np.nan)
        print(
            f"{len(self.times)} answers, {self.turned_away} turned away, {self.refusals} refused, "
            f"{sum(self.failed.values())} failed {self.failed or ''}, "
            f"{len(self.times) / taken:.2f} a second, "
            f"p50 {1000 * p50:.0f} ms, p99 {1000 * p99:.0f} ms"
        )


def children(parent: int) -> list[Path]:
    """Return the folders of the workers of a process (on Linux)."""
    tasks = Path(f"/proc/{parent}/task").iterdir()
    pids = [pid for task in tasks for pid in (task / "children").read_text().split()]
    folders = [Path("/proc", pid) for pid in pids]
    return [one for one in folders if b"resource_tracker" not in (one / "cmdline").read_bytes()]


def kill_one(parent: int) -> None:
    os.kill(int(children(parent)[0].name), signal.SIGKILL)


def workers(parent: int) -> str:
    """Return the memory and the open files of each worker."""
    said = []
    for child in children(parent):
        pages = int((child / "statm").read_text().split()[1])
        files = len(list((child / "fd").iterdir()))
        said.append(f"{child.name}: {pages * 4096 / 1e6:.1f} MB, {files} files")
    return "; ".join(said)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url", nargs="+")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--size", nargs=2, type=int, default=[224, 288])
    parser.add_argument("--rate", type=float, default=0, help="requests a second of each client")
    parser.add_argument("--malformed", type=int, default=0, help="one of so many is malformed")
    parser.add_argument("--watch", type=int, metavar="PID", help="whose children are watched")
    parser.add_argument("--kill", type=float, help="after how many seconds a worker is killed")
    parser.add_argument("--rest", type=float, default=12, help="seconds before memory is read")
    options = parser.parse_args()
    wrong = 0
    for url in options.url:
        wait(url)
        wrong += check_refusals(url)
    print(f"{wrong} malformed uploads were taken")
    for _ in range(options.rounds):
        for url in options.url:
            print(f"{url}: ", end="\n" if options.watch else "", flush=True)
            load = Load(url, tuple(options.size), options.rate, options.malformed)
            load.run(options)
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
