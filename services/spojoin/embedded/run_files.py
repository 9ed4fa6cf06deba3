"""All files of a run, by the options that name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spojoin.embedded.named_files import NamedFile, check_apart, check_inputs, check_outputs
from spojoin.embedded.writers import is_parquet


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What a run reads and writes.

    inputs: each stream's file, by the stream's name.
    rejects, report: where refused rows and the figures of the run go; None writes none.
    query_file: where the query came from, which no output may overwrite.
    """

    inputs: Mapping[str, Path]
    output: Path
    rejects: Path | None = None
    report: Path | None = None
    query_file: Path | None = None

    def check(self) -> None:
        """Checks that all files can be read and written without harm. Raises ConfigurationError."""
        reads = [NamedFile(f"--input {name}=", Path(path)) for name, path in self.inputs.items()]
        writes = [file for file in (self.named_output, self.named_rejects, self.named_report) if file]
        check_inputs(reads)
        check_outputs(writes)
        check_apart([*reads, *([NamedFile("the query file ", self.query_file)] if self.query_file else [])], writes)
        for file in (self.named_output, self.named_rejects):
            if file:
                is_parquet(file.path)

    @property
    def named_output(self) -> NamedFile:
        """The file of results, as errors name it."""
        return NamedFile("--output ", Path(self.output))

    @property
    def named_rejects(self) -> NamedFile | None:
        """The file of refused rows, as errors name it."""
        return NamedFile("--rejects ", Path(self.rejects)) if self.rejects else None

    @property
    def named_report(self) -> NamedFile | None:
        """The file of the report, as errors name it."""
        return NamedFile("--report ", Path(self.report)) if self.report else None
