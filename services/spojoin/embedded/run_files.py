"""The files of a run and the options that name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spojoin.embedded.file_paths import NamedFile, check_apart, check_inputs, check_outputs, files_of, is_standard_input
from spojoin.embedded.formats import ResultFormat, format_of, real_path
from spojoin.errors import ConfigurationError
from spojoin.model import Query


def table_files(query: Query, folder: Path) -> dict[str, Path]:
    """The files of the query's tables by name. folder: the query file's folder, to which paths are relative."""
    return {
        stream.name: folder / stream.table.file
        for stream in query.inputs
        if stream.table is not None and stream.table.file is not None
    }


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What a run reads and writes.

    inputs: the source of each stream, by name: a path, a pattern of paths, `-` for standard input, or rows.
    beside: further files that are read.
    output: the file of results; `-` is standard output.
    rejects, report: the files of refused rows and of the run's figures; None if they aren't written.
    query_file: the query's file, which no output may overwrite.
    format: the format of results; None means the extension's.
    is_statement: whether the statement itself names the inputs. Then `-` on both sides means the same rows, and rows of
    a table are refused one by one, like those of streams.
    """

    inputs: Mapping[str, object]
    output: Path
    rejects: Path | None = None
    report: Path | None = None
    query_file: Path | None = None
    format: ResultFormat | None = None
    beside: Sequence[Path] = ()
    is_statement: bool = False

    def check(self) -> None:
        """Checks that all files can be read and written without harm. Raises ConfigurationError."""
        self._check_standard_input()
        reads = [NamedFile(f"--input {name}=", each) for name, path in self._paths.items() for each in files_of(path)]
        reads += [NamedFile("", each) for path in self.beside for each in files_of(path)]
        writes = [file for file in (self.named_output, self.named_rejects, self.named_report) if file]
        check_inputs(reads)
        check_outputs(writes)
        check_apart([*reads, *([NamedFile("the query file ", self.query_file)] if self.query_file else [])], writes)
        format_of(self.named_output.path, self.format)
        if self.named_rejects:
            format_of(self.named_rejects.path)

    def _check_standard_input(self) -> None:
        streams = [name for name, path in self._paths.items() if is_standard_input(path)]
        if len(streams) > 1 and not self.is_statement:
            raise ConfigurationError(f"only one of {', '.join(streams)} can be read from standard input: name a file")

    @property
    def _paths(self) -> dict[str, Path]:
        return {name: Path(each) for name, each in self.inputs.items() if isinstance(each, str | Path)}

    @property
    def named_output(self) -> NamedFile:
        """The file of results, as errors name it."""
        return NamedFile("--output ", real_path(Path(self.output)))

    @property
    def named_rejects(self) -> NamedFile | None:
        """The file of refused rows, as errors name it."""
        return NamedFile("--rejects ", real_path(Path(self.rejects))) if self.rejects else None

    @property
    def named_report(self) -> NamedFile | None:
        """The file of the report, as errors name it."""
        return NamedFile("--report ", real_path(Path(self.report))) if self.report else None
