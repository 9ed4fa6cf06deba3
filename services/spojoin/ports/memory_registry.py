"""The schema registry in memory, for tests."""

from __future__ import annotations

from spojoin.wire.registered import RegisteredSchema, UnknownSchema


class MemoryRegistry:
    """Ids count from 1. What a registry would say of compatibility is not checked."""

    def __init__(self) -> None:
        self._schemas: list[RegisteredSchema] = []
        self._latest: dict[str, RegisteredSchema] = {}

    def find(self, schema_id: int) -> RegisteredSchema:
        """The schema with this id."""
        if not 1 <= schema_id <= len(self._schemas):
            raise UnknownSchema(f"schema {schema_id}: not found")
        return self._schemas[schema_id - 1]

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject."""
        if subject not in self._latest:
            raise UnknownSchema(f"subject {subject}: not found")
        return self._latest[subject]

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        """The id of a schema, the same under every subject."""
        if schema not in self._schemas:
            self._schemas.append(schema)
        self._latest[subject] = schema
        return self._schemas.index(schema) + 1

    def close(self) -> None:
        """Nothing to close."""
