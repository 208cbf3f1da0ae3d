"""The sizes of the built pages, from the build's manifest."""

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

from bench.report import Measurement
from holdfast.web.built import STATIC

KB, MB = 1000, 1_000_000
INITIAL_JS_KB, INITIAL_CSS_KB, CHUNK_KB, WHEEL_MB = 180, 15, 60, 1.2

Manifest = dict[str, dict[str, Any]]


def sizes() -> list[Measurement]:
    manifest: Manifest = json.loads((STATIC / "manifest.json").read_text())
    entry = next(name for name, chunk in manifest.items() if chunk.get("isEntry"))
    initial = set(needed(manifest, entry))
    pages = {
        name: set(needed(manifest, name)) - initial for name, chunk in manifest.items() if chunk.get("isDynamicEntry")
    }
    weights = {name: compressed(manifest, chunks) / KB for name, chunks in pages.items()}
    heaviest = max(weights, key=weights.__getitem__)
    return [
        Measurement("scripts before the first page, gzip", compressed(manifest, initial) / KB, "KB", INITIAL_JS_KB),
        Measurement("styles before the first page, gzip", styles(manifest, initial) / KB, "KB", INITIAL_CSS_KB),
        Measurement("scripts of the heaviest page, gzip", weights[heaviest], "KB", CHUNK_KB, heaviest),
        Measurement("the pages in the wheel", in_wheel() / MB, "MB", WHEEL_MB),
    ]


def needed(manifest: Manifest, name: str, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """The chunk and everything that it imports statically."""
    if name in seen:
        return
    yield name
    for other in manifest[name].get("imports", []):
        yield from needed(manifest, other, seen | {name})


def compressed(manifest: Manifest, names: set[str]) -> int:
    files = {manifest[name]["file"] for name in names}
    return sum((STATIC / f"{file}.gz").stat().st_size for file in files if file.endswith(".js"))


def styles(manifest: Manifest, names: set[str]) -> int:
    files = {file for name in names for file in manifest[name].get("css", [])}
    return sum((STATIC / f"{file}.gz").stat().st_size for file in files)


def in_wheel() -> int:
    """The size of all files in a wheel, which is a zip file."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in STATIC.rglob("*"):
            if file.is_file():
                wheel.write(file, file.relative_to(STATIC))
    return len(body.getvalue())
