"""The JSON schema of the run file, which editors complete and check it by."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from pipeline.run_file.config import RunFile
from stages.config import meanings_of


class _Explained(GenerateJsonSchema):
    """Says of each setting what it is for."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        meanings = meanings_of(schema["cls"])
        for name, setting in made.get("properties", {}).items():
            if name in meanings:
                setting.setdefault("description", meanings[name])
        return made


def run_file_schema() -> dict[str, Any]:
    """Return the schema."""
    return RunFile.model_json_schema(schema_generator=_Explained)
