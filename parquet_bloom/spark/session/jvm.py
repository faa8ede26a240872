"""Access to Spark's objects in the driver's JVM (classic sessions), many of them in few calls.

A call from Python into the JVM takes about 0.1 ms, so collections are not iterated from Python: Java methods are passed
to Scala's collections as functions, and the result is returned as one text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaClass, JavaGateway  # type: ignore[import-untyped]
from py4j.java_gateway import JavaObject as JavaObject
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

DATASOURCES = "org.apache.spark.sql.execution.datasources"
EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"

_SEPARATOR = "\0"  # not valid in paths
_DEFAULT = "copy$default$"
_INIT = "$lessinit$greater$default$"
_NUMBERS: dict[str, list[int]] = {}
_NUM_FIELDS: dict[str, int] = {}
_LISTINGS: WeakKeyDictionary[JavaGateway, dict[tuple[int, int], Any]] = WeakKeyDictionary()
_FUNCTIONS: WeakKeyDictionary[JavaGateway, dict[tuple[str, str], JavaObject]] = WeakKeyDictionary()
_CLASSES: WeakKeyDictionary[JavaGateway, dict[str, JavaClass]] = WeakKeyDictionary()
_IDENTITY = "", "identity"

JVM_ERRORS = (Py4JError, PySparkException)
"""What calls into the JVM raise: pyspark converts some exceptions of the JVM to its own."""


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
        self.session: JavaObject = spark._jsparkSession
        self.packages: JavaObject = spark._jvm
        self._gateway: JavaGateway = spark.sparkContext._gateway
        self._functions = _FUNCTIONS.setdefault(self._gateway, {})
        self._classes = _CLASSES.setdefault(self._gateway, {})
        self.listings: dict[tuple[int, int], Any] = _LISTINGS.setdefault(self._gateway, {})

    def package(self, name: str) -> JavaObject:
        """Return a class or package by its full name."""
        if name in self._classes:  # py4j does not remember it
            return self._classes[name]
        item = getattr(self.packages, name)
        if isinstance(item, JavaClass):
            self._classes[name] = item
        return item

    def classes(self, name: str) -> JavaObject:
        """Load a class by Spark's own class loader."""
        return self.session.getClass().getClassLoader().loadClass(name)

    @property
    def nil(self) -> JavaObject:
        """Scala's empty list."""
        return getattr(self.package("scala.collection.immutable.Nil$"), "MODULE$")

    def none(self) -> JavaObject:
        """Return Scala's None."""
        return self.package("scala.Option").empty()

    def some(self, value: JavaObject) -> JavaObject:
        """Return Scala's Some of a value."""
        return self.package("scala.Option").apply(value)

    def seq(self, items: Iterable[JavaObject]) -> JavaObject:
        """Make a Scala Seq of Java objects."""
        java_list = self.package("java.util.ArrayList")()
        for item in items:
            java_list.add(item)
        converters = "scala.jdk.javaapi.CollectionConverters"
        as_scala = self._classes.get(f"{converters}.asScala") or self.package(converters).asScala
        self._classes[f"{converters}.asScala"] = as_scala
        return as_scala(java_list).toSeq()

    def array(self, class_name: str, items: list[JavaObject]) -> JavaObject:
        """Make a Java array of objects of a class."""
        array = self._gateway.new_array(self.package(class_name), len(items))
        for i, item in enumerate(items):
            array[i] = item
        return array

    def method(self, class_name: str, name: str) -> JavaObject:
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

    def _make_function(self, handle: JavaObject) -> JavaObject:
        proxies = self.packages.java.lang.invoke.MethodHandleProxies
        return proxies.asInterfaceInstance(self.classes("scala.Function1"), handle)

    def list_nodes(self, plan: JavaObject) -> tuple[JavaObject, list[str]]:
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

    def find_nodes(self, plan: JavaObject, kind: str) -> list[JavaObject]:
        """Return the nodes of a plan that are of a class, from the root down."""
        nodes, kinds = self.list_nodes(plan)
        return [nodes.apply(i) for i, name in enumerate(kinds) if name == kind]

    def mapping(self, items: JavaObject) -> dict[str, str]:
        """Convert a Scala Map of texts to a dict."""
        return dict(zip(self.texts(items.keys().toSeq()), self.texts(items.values().toSeq()), strict=True))

    def texts(self, items: JavaObject) -> list[str]:
        """Return the elements of a Scala collection as texts, in its order."""
        count = items.size()
        texts: list[str] = items.mkString(_SEPARATOR).split(_SEPARATOR) if count else []
        if len(texts) == count:
            return texts
        return [item if isinstance(item, str) else item.toString() for item in iter_elements(items.toSeq())]


def iter_elements(seq: JavaObject) -> Iterator[JavaObject]:
    """Iterate over the elements of a short Scala Seq, with one call for each."""
    return (seq.apply(i) for i in range(seq.size()))


def class_name(item: JavaObject) -> str:
    """Return the name of a Java object's class, without its package."""
    return item.getClass().getSimpleName()


def copy_with(item: JavaObject, *first: JavaObject) -> JavaObject:
    """Copy an instance of a Scala case class with its first fields replaced."""
    name = item.getClass().getName()
    if name not in _NUM_FIELDS:  # depends on the version of Spark, and is slow to find out
        _NUM_FIELDS[name] = sum(method.startswith(_DEFAULT) for method in dir(item))
    rest = range(len(first) + 1, _NUM_FIELDS[name] + 1)
    return item.copy(*first, *(getattr(item, f"{_DEFAULT}{i}")() for i in rest))


def find_defaults(jvm: Jvm, name: str) -> dict[int, JavaObject]:
    """Return the methods that give the defaults of a Scala constructor's parameters, by number of the parameter."""
    companion = jvm.package(name)
    if name not in _NUMBERS:  # depend on the version of Spark, and are slow to find out
        methods = {method.getName() for method in jvm.classes(name).getMethods()}
        _NUMBERS[name] = [int(method.removeprefix(_INIT)) for method in methods if method.startswith(_INIT)]
    return {i: getattr(companion, f"{_INIT}{i}") for i in _NUMBERS[name]}
