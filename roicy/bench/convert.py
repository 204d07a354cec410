"""Files of `bench --json` in the formats of other tools."""

from __future__ import annotations

import csv
import io
import json
import statistics
from typing import Any

from .compare import KEY, read


def name_of(run: dict[str, Any]) -> str:
    """Return the name of a call."""
    return " ".join(str(run[part]) for part in KEY)


def to_pyperf(file: dict[str, Any]) -> str:
    """Return a suite of pyperf; each process is a run, and its value the least time."""
    import pyperf  # type: ignore[import-not-found]

    facts = {"cpu_model_name": file["machine"]["processor"], "date": file.get("date", "")}
    facts |= {"roicy_build": json.dumps(file["build"]), "unit": "second"}
    suite, text = [], io.StringIO()
    for run in file["runs"]:
        named = {"metadata": facts | {"name": name_of(run)}, "collect_metadata": False}
        suite.append(pyperf.Benchmark([pyperf.Run([value], **named) for value in run["least"]]))
    pyperf.BenchmarkSuite(suite).dump(text)
    return text.getvalue().rstrip("\n")


def to_github(file: dict[str, Any]) -> str:
    """Return what github-action-benchmark reads as `customSmallerIsBetter`."""
    rows = [
        {
            "name": name_of(run),
            "unit": "ms",
            "value": 1e3 * statistics.median(run["least"]),
            "range": f"{1e3 * (max(run['least']) - min(run['least'])):.4g}",
            "extra": f"{file['machine']['processor']}, {file['build']['compiler']}",
        }
        for run in file["runs"]
    ]
    return json.dumps(rows, indent=1)


def to_otava(*files: dict[str, Any]) -> str:
    """Return a table for Apache Otava: a row of seconds for each file, in the order of dates."""
    names = dict.fromkeys(name_of(run).replace(" ", "_") for file in files for run in file["runs"])
    text = io.StringIO()
    table = csv.DictWriter(text, ["time", "commit", *names], lineterminator="\n")
    table.writeheader()
    for file in sorted(files, key=lambda file: str(file.get("date", ""))):
        row = {"time": file.get("date", ""), "commit": file["build"].get("commit", "unknown")}
        for run in file["runs"]:
            row[name_of(run).replace(" ", "_")] = statistics.median(run["least"])
        table.writerow(row)
    return text.getvalue().rstrip("\n")


FORMATS = {"pyperf": to_pyperf, "github": to_github, "otava": to_otava}


def convert(form: str, paths: list[str]) -> str:
    """Return files of `bench --json` in another format."""
    if form not in FORMATS:
        raise ValueError(f"--convert: {form!r}, expected any of {', '.join(FORMATS)}")
    if form != "otava" and len(paths) != 1:
        raise ValueError(f"--convert {form}: {len(paths)} files, expected one")
    return FORMATS[form](*(read(path, "--convert") for path in paths))
