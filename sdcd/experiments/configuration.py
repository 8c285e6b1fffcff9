"""A configuration checked against a JSON schema, with its defaults filled in.

Whatever is wrong is said in one line that names the key, what was found and what is expected. What
is expected is the ``description`` of the nearest part of the schema that has one, so that the
schema is the only place that says what a key may hold.
"""

import copy
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from sdcd.errors import InputError
from sdcd.parameters import closest


def read_yaml(path: str | Path) -> object:
    """Read a YAML file; one that is not there is None.

    Raises
    ------
    InputError
        If it is not YAML, or not text, or has a key twice, of which YAML would take the last: with
        the file, the line, and what is wrong there.
    """
    import yaml

    try:
        loader = yaml.SafeLoader(Path(path).read_text(encoding="utf-8"))
        node = loader.get_single_node()
        _refuse_repeated_keys(path, node)
        return None if node is None else loader.construct_document(node)
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error.reason})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f": line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise InputError(
            f"{path}{where}: not YAML ({problem}); indent with spaces only, and keys of one level "
            "alike"
        ) from None


def _refuse_repeated_keys(path: str | Path, node) -> None:
    pending, seen = [node], set()
    while pending:
        node = pending.pop()
        # An alias is the node that it names.
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if node.id == "sequence":
            pending += node.value
        elif node.id == "mapping":
            lines = {}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if key.id == "scalar" and key.value in lines:
                    raise InputError(
                        f"{path}: line {line}: key {key.value!r} again, after line "
                        f"{lines[key.value]}, expected each key once"
                    )
                lines[str(key.value)] = line
                pending.append(value)


def checked(config: Mapping[str, object], schema: Mapping[str, object]) -> dict[str, object]:
    """The configuration with the schema's defaults filled in; neither argument is changed.

    Parameters
    ----------
    config : mapping
        As read from YAML and the command line.
    schema : mapping
        A JSON schema (draft 2020-12). References are to its own ``$defs``.

    Raises
    ------
    InputError
        For the first fault: an unknown key (with the closest known one), a missing key, a wrong
        type, or a value that is not allowed.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    # YAML has .inf and .nan, which are no limits, and 2.0, which is no count.
    types = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "number": lambda _, value: type(value) is int or _is_finite(value),
            "integer": lambda _, value: type(value) is int,
        }
    )
    errors = extend(Draft202012Validator, type_checker=types)(schema).iter_errors(config)
    # Unknown keys first: a misspelt key also makes the right one missing.
    order = sorted(
        errors, key=lambda e: (e.validator != "additionalProperties", list(map(str, e.path)))
    )
    if order:
        raise InputError(_explain(order[0], schema))
    config = copy.deepcopy(dict(config))
    _fill(config, schema, schema)
    return config


def _is_finite(value: object) -> bool:
    return type(value) is float and math.isfinite(value)


def key_path(parts: Iterable[object]) -> str:
    """A place in a configuration as it is written for people: ``scales.quick.d[0]``."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _explain(error, root) -> str:
    path = list(error.absolute_path)
    where = f"config key {key_path(path)}" if path else "config"
    if error.validator == "additionalProperties":
        known = list(error.schema.get("properties", {}))
        unknown = next(key for key in error.instance if key not in known)
        key = key_path([*path, unknown])
        hint = closest(unknown, known) or f" (known here: {', '.join(known)})"
        return f"config key {key}: unknown{hint}"
    if error.validator == "required":
        missing = next(key for key in error.validator_value if key not in error.instance)
        expected = _description(error.schema.get("properties", {}).get(missing, {}), root)
        return f"config key {key_path([*path, missing])}: missing, expected {expected}"
    hint = ""
    if error.validator == "enum":
        hint = closest(error.instance, map(str, error.validator_value))
    if error.validator == "propertyNames" or "propertyNames" in error.absolute_schema_path:
        where = f"config key {key_path(path)}: name of a key"
    found = json.dumps(error.instance, default=str, ensure_ascii=False)
    if len(found) > 60:
        found = found[:57] + "..."
    return f"{where}: found {found}, expected {_expected(error, root)}{hint}"


def _expected(error, root) -> str:
    """The description of the part of the schema that failed, or of the nearest part around it."""
    node, descriptions = root, []
    for step in error.absolute_schema_path:
        description = node.get("description") if isinstance(node, Mapping) else None
        if description:
            descriptions.append(description)
        node = node[step]
        if isinstance(node, Mapping) and "$ref" in node:
            node = {**_resolve(node, root), **node}
    return descriptions[-1] if descriptions else str(error.message)


def _description(node, root) -> str:
    return {**_resolve(node, root), **node}.get("description", "a value")


def _resolve(node, root) -> Mapping:
    target = root
    for step in node.get("$ref", "#").split("/")[1:]:
        target = target[step]
    return target if "$ref" in node else node


def _fill(instance, node, root) -> None:
    node = _resolve(node, root)
    if isinstance(instance, dict):
        for key, part in node.get("properties", {}).items():
            part = {**_resolve(part, root), **part}
            if key not in instance and "default" in part:
                instance[key] = copy.deepcopy(part["default"])
            if key in instance:
                _fill(instance[key], part, root)
        extra = node.get("additionalProperties")
        if isinstance(extra, Mapping):
            for key in instance.keys() - node.get("properties", {}).keys():
                _fill(instance[key], extra, root)
    elif isinstance(instance, list) and isinstance(node.get("items"), Mapping):
        for value in instance:
            _fill(value, node["items"], root)
