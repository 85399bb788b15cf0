"""The OpenAPI description of a model's HTTP service, from which clients are generated."""

from __future__ import annotations

from typing import Any

from partwise import __version__
from partwise.web.service import Service

_ERRORS = {
    "400": "the body is not JSON",
    "413": "the body is too large",
    "415": "the body is not application/json",
    "422": "the model cannot read the example",
    "503": "too many requests at once",
    "504": "no answer within the time limit",
}


def description(service: Service) -> dict[str, Any]:
    """The paths of the service, with the model's own example of a request."""
    expected = service.task.expects()
    example = {"text": expected["example"]}
    kbest = {"type": "integer", "minimum": 1, "maximum": service.limits.kbest, "default": 3}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"partwise {service.summary.kind}", "version": __version__},
        "paths": {
            "/predict": {
                "post": _post(
                    "Answer with probabilities and explanations", {"kbest": kbest}, example, service
                )
            },
            "/best": {"post": _post("The best answer alone", {}, example, service)},
            "/model": {"get": _get("Facts about the model")},
            "/health": {"get": _get("Whether the server answers")},
        },
    }


def _post(summary: str, more: dict[str, Any], example: dict[str, Any], service: Service) -> dict[str, Any]:
    text = {"type": "string", "description": service.task.expects()["format"]}
    one = {"type": "object", "properties": {"text": text, **more}}
    many = {"type": "array", "items": one, "minItems": 1, "maxItems": service.limits.list}
    body = {"schema": {"oneOf": [one, many]}, "example": example}
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": body}},
        "responses": {
            **_get(summary)["responses"],
            **{code: _error(words) for code, words in _ERRORS.items()},
        },
    }


def _get(summary: str) -> dict[str, Any]:
    kinds = {"oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]}
    answer = {"description": summary, "content": {"application/json": {"schema": kinds}}}
    return {"summary": summary, "responses": {"200": answer}}


def _error(words: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    return {"description": words, "content": {"application/json": {"schema": schema}}}
