"""The words that our Markdown has for the site, between lines of three colons.

    :::{excerpt} regard.layers.attend:attend            our code, by name; :from: and :to: choose a part of it
    :::{look} heads                                     a picture and a saved look of looks.py; below it, what is seen
    :::{claim} heads                                    a claim of the lab with its verdict; :chart: 1 adds a picture
    :::{generated} commands                             a part of the reference, made from the code

A wrong name is a warning, and warnings are errors. Equations are written as MathML, which needs no script.
"""

from __future__ import annotations

import shutil
from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from docs.site import excerpts, looks, reference, verdicts
from docs.site.stage import ROOT, code_place


class Ours(SphinxDirective):
    """A directive whose mistakes are warnings with the page and the line."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        try:
            return self.make(self.arguments[0].strip())
        except (excerpts.NoSuchCode, looks.NoSuchLook, verdicts.NoSuchClaim, reference.NoSuchPart) as mistake:
            raise self.warning(str(mistake)) from None

    def make(self, name: str) -> list[nodes.Node]:
        raise NotImplementedError

    def up(self) -> str:
        """From this page to the top of the site."""
        return "../" * self.env.docname.count("/")

    def parsed(self, text: str) -> list[nodes.Node]:
        held = nodes.container()
        self.state.nested_parse(StringList(text.splitlines(), source=self.env.docname), self.content_offset, held)
        return list(held.children)


class ExcerptDirective(Ours):
    option_spec: ClassVar[Any] = {"from": directives.unchanged_required, "to": directives.unchanged_required}

    def make(self, name: str) -> list[nodes.Node]:
        taken = excerpts.excerpt(name, self.options.get("from", ""), self.options.get("to", ""))
        self.env.note_dependency(str(taken.file))
        block = nodes.literal_block(taken.code, taken.code, language="python", classes=["ours"])
        place = code_place(taken.file).removesuffix(".md")
        staged = (Path(self.env.srcdir) / code_place(taken.file)).is_file()
        where = (f'<a href="{self.up()}{place}.html#L{taken.first}">{escape(taken.where)}</a>' if staged
                 else escape(taken.where))
        return [block, raw(f'<p class="code-from"><code>{escape(name)}</code> · {where}</p>')]


class LookDirective(Ours):
    """A picture of a map, and below it the same look as a page that answers to the pointer."""

    has_content = True

    def make(self, name: str) -> list[nodes.Node]:
        look = looks.look_named(name)
        said = " ".join(" ".join(self.content).split())
        if not said:
            raise looks.NoSuchLook(f"the look {name} needs a sentence below it: what is seen")
        base = f"{self.up()}_static/looks/{name}"
        caption = self.parsed("\n".join(self.content))
        return [raw(f'<figure class="look"><img src="{base}.svg" alt="{escape(look.alt, quote=True)}" loading="lazy">'
                    "<figcaption>"), *caption,
                raw(f'<p class="code-from">{made_by(look)}</p></figcaption></figure>'
                    f'<details class="saved"><summary>Point at it: the same look as a page that answers</summary>'
                    f'<iframe src="{base}.html" title="{escape(look.alt, quote=True)}" loading="lazy" '
                    f'sandbox="allow-scripts"></iframe>'
                    f'<p class="code-from"><a href="{base}.html">Open it on a page of its own</a></p></details>')]


class ClaimDirective(Ours):
    option_spec: ClassVar[Any] = {"chart": directives.nonnegative_int}

    def make(self, name: str) -> list[nodes.Node]:
        picture = ""
        if which := self.options.get("chart"):
            file, title = verdicts.chart_of(name, which)
            to = Path(self.env.app.outdir) / "_static" / "lab" / file.name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, to)
            picture = (f'<img class="chart" src="{self.up()}_static/lab/{file.name}" loading="lazy" '
                       f'alt="{escape(f"Chart: {title}. The numbers are in the table above.", quote=True)}">')
        return [raw(verdicts.verdict_html(name, picture))]


class GeneratedDirective(Ours):
    def make(self, name: str) -> list[nodes.Node]:
        return self.parsed(reference.part(name))


def made_by(look: looks.LookOf) -> str:
    """The commands that make a picture, from the data to the map."""
    *learned, drawn = (f"<code>{escape(each)}</code>"
                       for each in (*looks.MODELS[look.model].commands, look.command))
    return f"Learned by {'<br>'.join(learned)}<br>Drawn by {drawn}"


def raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


# ---------------------------------------------------------------------------------------------- equations


def mathml(latex: str, display: bool) -> str:
    from latex2mathml.converter import convert

    made = convert(latex, display="block" if display else "inline")
    return made.replace("<math ", f'<math aria-label="{escape(latex, quote=True)}" ', 1)


def visit_inline(self: Any, node: nodes.math) -> None:
    self.body.append(mathml(node.astext(), False))
    raise nodes.SkipNode


def visit_display(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="equation" tabindex="0" role="group" aria-label="Equation">'
                     f'{mathml(node.astext(), True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    for name, kind in {"excerpt": ExcerptDirective, "look": LookDirective, "claim": ClaimDirective,
                       "generated": GeneratedDirective}.items():
        app.add_directive(name, kind)
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True, "version": str(ROOT.stat().st_mtime_ns)}
