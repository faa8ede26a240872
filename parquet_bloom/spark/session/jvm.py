"""Access to Spark's objects in the driver's JVM (classic sessions), many of them in few calls.

A call from Python into the JVM takes about 0.1 ms, so collections are not iterated from Python: Java methods are passed
to Scala's collections as functions, and the result is returned as one text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

DATASOURCES = "org.apache.spark.sql.execution.datasources"
EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"

_SEPARATOR = "\0"  # not valid in paths
_DEFAULT = "copy$default$"
_INIT = "$lessinit$greater$default$"
_NUMBERS: dict[str, list[int]] = {}
_NUM_FIELDS: dict[str, int] = {}
_LISTINGS: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()
_FUNCTIONS: WeakKeyDictionary[Any, dict[tuple[str, str], Any]] = WeakKeyDictionary()  # by gateway
_CLASSES: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()  # by gateway
_IDENTITY = "", "identity"


def is_classic(spark: SparkSession) -> bool:
    """Return True if a session has access to its JVM; sessions of Spark Connect do not."""
    return hasattr(spark, "_jsparkSession")


class Jvm:
    """The JVM of a classic session.

    Parameters
    ----------
    spark : the session.

    Attributes
    ----------
    packages : the JVM's packages, as py4j represents them.
    session : Spark's session object in the JVM.
    listings : files that Spark has listed before; see `catalyst_plan.find_listing`.
    """

    def __init__(self, spark: SparkSession):
        self.spark = spark
        self.session: Any = spark._jsparkSession
        self.packages: Any = spark._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._functions = _FUNCTIONS.setdefault(self._gateway, {})
        self._classes = _CLASSES.setdefault(self._gateway, {})
        self.listings: dict[Any, Any] = _LISTINGS.setdefault(self._gateway, {})

    def package(self, name: str) -> Any:
        """Return a class or package by its full name."""
        if name in self._classes:  # py4j does not remember it
            return self._classes[name]
        item = getattr(self.packages, name)
        if isinstance(item, JavaClass):
            self._classes[name] = item
        return item

    def classes(self, name: str) -> Any:
        """Load a class by Spark's own class loader."""
        return self.session.getClass().getClassLoader().loadClass(name)

    @property
    def nil(self) -> Any:
        """Scala's empty list."""
        return getattr(self.package("scala.collection.immutable.Nil$"), "MODULE$")

    def none(self) -> Any:
        """Return Scala's None."""
        return self.package("scala.Option").empty()

    def some(self, value: Any) -> Any:
        """Return Scala's Some of a value."""
        return self.package("scala.Option").apply(value)

    def seq(self, items: Iterable[Any]) -> Any:
        """Make a Scala Seq of Java objects."""
        java_list = self.package("java.util.ArrayList")()
        for item in items:
            java_list.add(item)
        converters = "scala.jdk.javaapi.CollectionConverters"
        as_scala = self._classes.get(f"{converters}.asScala") or self.package(converters).asScala
        self._classes[f"{converters}.asScala"] = as_scala
        return as_scala(java_list).toSeq()

    def array(self, class_name: str, items: list[Any]) -> Any:
        """Make a Java array of objects of a class."""
        array = self._gateway.new_array(self.package(class_name), len(items))
        for i, item in enumerate(items):
            array[i] = item
        return array

    def method(self, class_name: str, name: str) -> Any:
        """Return a Java method without parameters as a Scala function, for `map` and `flatMap`."""
        key = class_name, name
        if key not in self._functions:
            java = self.packages.java.lang
            java_class = self.classes(class_name)
            returns = java_class.getMethod(name, self._gateway.new_array(java.Class, 0)).getReturnType()
            handle = java.invoke.MethodHandles.publicLookup().findVirtual(
                java_class, name, java.invoke.MethodType.methodType(returns)
            )
            self._functions[key] = self._make_function(handle)
        return self._functions[key]

    def _make_function(self, handle: Any) -> Any:
        proxies = self.packages.java.lang.invoke.MethodHandleProxies
        return proxies.asInterfaceInstance(self.classes("scala.Function1"), handle)

    def list_nodes(self, plan: Any) -> tuple[Any, list[str]]:
        """Return the nodes of a plan as a Scala Seq, from the root down, and the names of their classes.

        That takes few calls however large the plan is. Plans of subqueries in expressions are left out.
        """
        if _IDENTITY not in self._functions:
            lang = self.packages.java.lang
            self._functions[_IDENTITY] = self._make_function(
                lang.invoke.MethodHandles.identity(self.classes("java.lang.Object"))
            )
        nodes = plan.map(self._functions[_IDENTITY])
        classes = nodes.map(self.method("java.lang.Object", "getClass"))
        return nodes, self.texts(classes.map(self.method("java.lang.Class", "getSimpleName")))

    def find_nodes(self, plan: Any, kind: str) -> list[Any]:
        """Return the nodes of a plan that are of a class, from the root down."""
        nodes, kinds = self.list_nodes(plan)
        return [nodes.apply(i) for i, name in enumerate(kinds) if name == kind]

    def mapping(self, items: Any) -> dict[str, str]:
        """Convert a Scala Map of texts to a dict."""
        try:
            names, values = self.texts(items.keys().toSeq()), self.texts(items.values().toSeq())
        except ValueError:
            return dict(self.package("scala.jdk.javaapi.CollectionConverters").asJava(items))
        return dict(zip(names, values, strict=True))

    def texts(self, items: Any) -> list[str]:
        """Return the elements of a Scala collection as texts, in its order.

        Raises
        ------
        ValueError
            A text has a NUL in it.
        """
        count = items.size()
        texts = items.mkString(_SEPARATOR).split(_SEPARATOR) if count else []
        if len(texts) != count:
            raise ValueError("a text has a NUL in it")
        return texts


def iter_elements(seq: Any) -> Iterator[Any]:
    """Iterate over the elements of a short Scala Seq, with one call for each."""
    return (seq.apply(i) for i in range(seq.size()))


def class_name(item: Any) -> str:
    """Return the name of a Java object's class, without its package."""
    return item.getClass().getSimpleName()


def copy_with(item: Any, *first: Any) -> Any:
    """Copy an instance of a Scala case class with its first fields replaced."""
    name = item.getClass().getName()
    if name not in _NUM_FIELDS:  # depends on the version of Spark, and is slow to find out
        _NUM_FIELDS[name] = sum(method.startswith(_DEFAULT) for method in dir(item))
    rest = range(len(first) + 1, _NUM_FIELDS[name] + 1)
    return item.copy(*first, *(getattr(item, f"{_DEFAULT}{i}")() for i in rest))


def find_defaults(jvm: Jvm, name: str) -> dict[int, Any]:
    """Return the methods that give the defaults of a Scala constructor's parameters, by number of the parameter."""
    companion = jvm.package(name)
    if name not in _NUMBERS:  # depend on the version of Spark, and are slow to find out
        methods = {method.getName() for method in jvm.classes(name).getMethods()}
        _NUMBERS[name] = [int(method.removeprefix(_INIT)) for method in methods if method.startswith(_INIT)]
    return {i: getattr(companion, f"{_INIT}{i}") for i in _NUMBERS[name]}
