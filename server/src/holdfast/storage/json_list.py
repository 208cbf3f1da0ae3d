"""Searches for a value in a column that holds a list in JSON."""

from typing import Any

from sqlalchemy import Boolean, ColumnElement
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class lists(FunctionElement[bool]):  # noqa: N801  it reads as an SQL function
    """Given a column with a JSON list of texts, and a text: true if the list names the text."""

    inherit_cache = True
    name = "lists"
    type = Boolean()

    def __init__(self, column: ColumnElement[Any] | Any, word: ColumnElement[Any] | Any) -> None:
        super().__init__(column, word)


@compiles(lists, "sqlite")
def _in_sqlite(element: lists, compiler: SQLCompiler, **options: Any) -> str:
    column, word = (compiler.process(clause, **options) for clause in element.clauses)
    # Both are SQL that the compiler has made; values stay bound.
    return f"EXISTS (SELECT 1 FROM json_each({column}) WHERE json_each.value = {word})"  # noqa: S608


@compiles(lists, "postgresql")
def _in_postgresql(element: lists, compiler: SQLCompiler, **options: Any) -> str:
    column, word = (compiler.process(clause, **options) for clause in element.clauses)
    return f"jsonb_exists({column}, {word})"
