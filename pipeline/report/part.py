"""A part of the report: a frozen model of what no record of a step has."""

from pydantic import ConfigDict, SerializerFunctionWrapHandler, model_serializer

from stages.config import Config


class Part(Config):
    """A part of the report; its JSON leaves out each field that has its default."""

    model_config = ConfigDict(extra="ignore")  # another version may have written more

    @model_serializer(mode="wrap")
    def _without_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        content: dict[str, object] = dump(self)
        for name, field in type(self).model_fields.items():
            if not field.is_required() and getattr(self, name) == field.get_default(
                call_default_factory=True
            ):
                content.pop(name, None)
        return content
