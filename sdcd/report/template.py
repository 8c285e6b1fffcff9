"""The report's templates, filled."""

from collections.abc import Callable, Mapping

import jinja2


def render(name: str, content: Mapping[str, object], **filters: Callable) -> str:
    """Fill a template of ``sdcd/report/templates``; what it names must be in ``content``."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sdcd.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.get_template(name).render(content)
