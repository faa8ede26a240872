"""Spark's own objects in the driver's JVM, of classic sessions: many of them in few calls.

A call from Python into the JVM takes about 0.1 ms, so lists are not walked: Java's methods are handed to Scala's
collections as functions, and what comes back is one text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

DATASOURCES = "org.apache.spark.sql.execution.datasources"
EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"

_BETWEEN = "\0"  # no path has it
_DEFAULT = "copy$default$"
_INIT = "$lessinit$greater$default$"
_NUMBERS: dict[str, list[int]] = {}
_NUM_FIELDS: dict[str, int] = {}
_LISTS: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()
_FUNCTIONS: WeakKeyDictionary[Any, dict[tuple[str, str], Any]] = WeakKeyDictionary()  # a gateway each


def is_classic(spark: SparkSession) -> bool:
    """Whether a session has a JVM at hand; Spark Connect's have not."""
    return hasattr(spark, "_jsparkSession")


class Jvm:
    """The JVM of a classic session.

    Parameters
    ----------
    spark : the session.

    Attributes
    ----------
    packages : the JVM's packages, as py4j has them.
    session : Spark's own session.
    lists : of files that Spark gave before; see `plans.listing_of`.
    """

    def __init__(self, spark: SparkSession):
        self.spark = spark
        self.session: Any = spark._jsparkSession
        self.packages: Any = spark._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._functions = _FUNCTIONS.setdefault(self._gateway, {})
        self.lists: dict[Any, Any] = _LISTS.setdefault(self._gateway, {})

    def package(self, name: str) -> Any:
        """A class or package by its full name."""
        return getattr(self.packages, name)

    def classes(self, name: str) -> Any:
        """A class as an object, as Spark's own loader knows it."""
        return self.session.getClass().getClassLoader().loadClass(name)

    @property
    def nil(self) -> Any:
        """Scala's empty list."""
        return getattr(self.package("scala.collection.immutable.Nil$"), "MODULE$")

    def none(self) -> Any:
        """Scala's None."""
        return self.package("scala.Option").empty()

    def some(self, value: Any) -> Any:
        """Scala's Some."""
        return self.package("scala.Option").apply(value)

    def seq(self, items: Iterable[Any]) -> Any:
        """A Scala Seq of Java objects."""
        several = self.package("java.util.ArrayList")()
        for item in items:
            several.add(item)
        return self.package("scala.jdk.javaapi.CollectionConverters").asScala(several).toSeq()

    def array(self, class_name: str, items: list[Any]) -> Any:
        """A Java array of objects of a class."""
        made = self._gateway.new_array(self.package(class_name), len(items))
        for index, item in enumerate(items):
            made[index] = item
        return made

    def method(self, class_name: str, name: str) -> Any:
        """A Java method without parameters as a Scala function, for `map` and `flatMap`."""
        key = class_name, name
        if key not in self._functions:
            java = self.packages.java.lang
            of = self.classes(class_name)
            returns = of.getMethod(name, self._gateway.new_array(java.Class, 0)).getReturnType()
            handle = java.invoke.MethodHandles.publicLookup().findVirtual(
                of, name, java.invoke.MethodType.methodType(returns)
            )
            function = self.classes("scala.Function1")
            self._functions[key] = java.invoke.MethodHandleProxies.asInterfaceInstance(function, handle)
        return self._functions[key]

    def mapping(self, items: Any) -> dict[str, str]:
        """A Scala Map of texts."""
        try:
            names, values = self.texts(items.keys().toSeq()), self.texts(items.values().toSeq())
        except ValueError:
            return dict(self.package("scala.jdk.javaapi.CollectionConverters").asJava(items))
        return dict(zip(names, values, strict=True))

    def texts(self, items: Any) -> list[str]:
        """The elements of a Scala collection as texts, in its order.

        Raises
        ------
        ValueError
            Some of them have a NUL within.
        """
        count = items.size()
        found = items.mkString(_BETWEEN).split(_BETWEEN) if count else []
        if len(found) != count:
            raise ValueError("a text has a NUL in it")
        return found


def elements(seq: Any) -> Iterator[Any]:
    """The elements of a short Scala Seq, one by one."""
    return (seq.apply(index) for index in range(seq.size()))


def class_name(item: Any) -> str:
    """The name of a Java object's class, without its package."""
    return item.getClass().getSimpleName()


def nodes(plan: Any) -> Iterator[Any]:
    """All nodes of a plan, from the top down; not those of subqueries in expressions."""
    stack = [plan]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(list(elements(top.children()))))


def copied(item: Any, *first: Any) -> Any:
    """A copy of a Scala case class with its first fields replaced."""
    name = item.getClass().getName()
    if name not in _NUM_FIELDS:  # it depends on Spark's version, and is slow to ask
        _NUM_FIELDS[name] = sum(method.startswith(_DEFAULT) for method in dir(item))
    rest = range(len(first) + 1, _NUM_FIELDS[name] + 1)
    return item.copy(*first, *(getattr(item, f"{_DEFAULT}{number}")() for number in rest))


def defaults_of(jvm: Jvm, name: str) -> dict[int, Any]:
    """The defaults of a Scala constructor's parameters, by their numbers: methods to be called."""
    companion = jvm.package(name)
    if name not in _NUMBERS:  # they depend on Spark's version, and are slow to ask
        methods = {method.getName() for method in jvm.classes(name).getMethods()}
        _NUMBERS[name] = [int(found.removeprefix(_INIT)) for found in methods if found.startswith(_INIT)]
    return {number: getattr(companion, f"{_INIT}{number}") for number in _NUMBERS[name]}
