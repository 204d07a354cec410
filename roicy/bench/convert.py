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


def only(files: list[dict[str, Any]], form: str) -> dict[str, Any]:
    """Return the only file, which these formats take."""
    if len(files) != 1:
        raise ValueError(f"--convert {form}: {len(files)} files, expected one")
    return files[0]


def to_pyperf(files: list[dict[str, Any]]) -> str:
    """Return a suite of pyperf; each process is a run, and its value the least time."""
    import pyperf  # type: ignore[import-not-found]

    file = only(files, "pyperf")
    facts = {
        "cpu_model_name": file["machine"]["processor"],
        "roicy_build": json.dumps(file["build"]),
    }
    benchmarks = []
    for run in file["runs"]:
        metadata = facts | {"name": name_of(run), "unit": "second", "date": file.get("date", "")}
        runs = [
            pyperf.Run([value], metadata=metadata, collect_metadata=False) for value in run["least"]
        ]
        benchmarks.append(pyperf.Benchmark(runs))
    text = io.StringIO()
    pyperf.BenchmarkSuite(benchmarks).dump(text)
    return text.getvalue().rstrip("\n")


def to_github(files: list[dict[str, Any]]) -> str:
    """Return what github-action-benchmark reads as `customSmallerIsBetter`."""
    file = only(files, "github")
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


def to_otava(files: list[dict[str, Any]]) -> str:
    """Return a table for Apache Otava: a row of seconds for each file, in the order of dates."""
    names = list(dict.fromkeys(name_of(run) for file in files for run in file["runs"]))
    columns = {name: name.replace(" ", "_") for name in names}
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["time", "commit", *columns.values()])
    for file in sorted(files, key=lambda file: str(file.get("date", ""))):
        found = {name_of(run): statistics.median(run["least"]) for run in file["runs"]}
        row = [file.get("date", ""), file["build"].get("commit", "unknown")]
        table.writerow([*row, *(found.get(name, "") for name in columns)])
    return text.getvalue().rstrip("\n")


FORMATS = {"pyperf": to_pyperf, "github": to_github, "otava": to_otava}


def convert(form: str, paths: list[str]) -> str:
    """Return files of `bench --json` in another format."""
    if form not in FORMATS:
        raise ValueError(f"--convert: {form!r}, expected any of {', '.join(FORMATS)}")
    return FORMATS[form]([read(path, "--convert") for path in paths])
