"""Build hook: generates `spojoin.wire._generated.spojoin_pb2` from protos/, for wheels and editable installs.

After an edit of the proto, `python hatch_build.py` does the same.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from grpc_tools import protoc
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROTO = Path("protos/spojoin.proto")
PACKAGE = Path("services/spojoin/wire/_generated")


class ProtobufBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """For every target, Hatchling calls `initialize` before it collects files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Update the generated package."""
        generate(Path(self.root))


def generate(root: Path) -> bool:
    """Run protoc if the proto is newer than its output; return whether it ran."""
    proto, package = root / PROTO, root / PACKAGE
    if not _is_stale(proto, package):
        return False
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text('"""Generated from protos/ at build time; not committed."""\n')
    _protoc(proto, package)
    return True


def _is_stale(proto: Path, package: Path) -> bool:
    outputs = [package / name for name in ("__init__.py", f"{proto.stem}_pb2.py", f"{proto.stem}_pb2.pyi")]
    return not all(o.exists() and o.stat().st_mtime > proto.stat().st_mtime for o in outputs)


def _protoc(proto: Path, package: Path) -> None:
    well_known = files("grpc_tools") / "_proto"
    arguments = [f"-I{proto.parent}", f"-I{well_known}", f"--python_out={package}", f"--pyi_out={package}", proto.name]
    status = protoc.main(["protoc", *arguments])
    if status:
        raise RuntimeError(f"protoc refused {proto} with status {status}; its messages are above")


if __name__ == "__main__":
    print("generated" if generate(Path(__file__).parent) else "up to date")
