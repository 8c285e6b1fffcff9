"""The notebooks of this documentation, without the many packages of Jupyter, which runs them too.

    python docs/notebooks.py docs/tour.ipynb

runs the cells and keeps in the file what they print and show. ``mkdocs`` takes the functions
``on_...`` from here and shows every notebook as a page.
"""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path


def run(path: Path) -> None:
    """Run all cells in an empty folder; the file is written if none fails."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, object] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):
        for number, cell in enumerate(cells, 1):
            cell["outputs"] = _outputs("".join(cell["source"]), names, number)
            cell["execution_count"] = number
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def _outputs(source: str, names: dict[str, object], number: int) -> list[dict]:
    """What a cell prints, and the value of its last line if that is an expression."""
    body, value = ast.parse(source).body, None
    last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"cell {number}", "exec"), names)
        if last:
            value = eval(compile(last, f"cell {number}", "eval"), names)
    outputs: list[dict] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        if hasattr(value, "_repr_png_"):
            data = {"image/png": base64.b64encode(value._repr_png_()).decode()}
        outputs.append(
            {"output_type": "execute_result", "execution_count": number, "data": data}
            | {"metadata": {}}
        )
    return outputs


def page(notebook: dict) -> str:
    """A notebook with its outputs as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {"text/plain": output.get("text")})
            if "image/png" in data:
                parts.append(f'<img alt="" src="data:image/png;base64,{data["image/png"]}">')
            elif "text/html" in data:
                parts.append("".join(data["text/html"]))
            else:
                parts.append(f"```text\n{''.join(data['text/plain']).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def on_files(files, config):
    """Add a page for every notebook; the notebook itself stays, to be downloaded."""
    from mkdocs.structure.files import File

    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        content = page(json.loads(file.content_string))
        files.append(File.generated(config, file.src_uri[:-5] + "md", content=content))
    return files


def on_page_markdown(markdown, **_):
    """Links between the documents lead to the page of a notebook."""
    return markdown.replace(".ipynb)", ".md)")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        run(Path(argument).resolve())
