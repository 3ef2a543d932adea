"""The one registry: methods are found by their files and by entry points, and forwards lead somewhere."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from covec import registry
from covec.errors import CovecError


@pytest.fixture
def published(monkeypatch):
    """Publish modules as another package's methods, by entry point."""

    def publish(**modules):
        points = []
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, f"theirs_{name}", module)
            points.append(EntryPoint(f"find.{name}", f"theirs_{name}", "covec.methods"))
        monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "covec.methods" else [])
        registry._modules.cache_clear()

    yield publish
    registry._modules.cache_clear()


def module(name, **content):
    made = ModuleType(name)
    vars(made).update(content)
    return made


def test_a_method_of_another_package_is_one_of_the_verb(published):
    @registry.method("theirs", verb="find", requires=("pairs",))
    class Theirs:
        pass

    published(theirs=module("theirs", Theirs=Theirs))
    assert "theirs" in registry.names("find")
    assert "theirs" not in registry.names("detect")
    assert registry.get("find", "theirs") is Theirs
    assert Theirs.entry.requires == ("pairs",)


def test_two_methods_of_one_name_are_refused(published):
    published(ridge=module("ridge"))
    with pytest.raises(CovecError, match="two find methods are called 'ridge': covec.find.ridge and theirs_ridge"):
        registry.names("find")


def test_a_module_that_registers_nothing_of_its_name_is_refused(published):
    published(empty=module("theirs_empty", Other=type("Other", (), {"entry": registry.Entry("other", "find")})))
    with pytest.raises(CovecError, match="theirs_empty does not register a find method called 'empty'"):
        registry.get("find", "empty")


def test_what_is_not_there_is_refused_and_what_is_there_is_listed():
    with pytest.raises(CovecError, match="no verb 'fly'; known: find, discover"):
        registry.names("fly")
    with pytest.raises(CovecError, match="no find method 'magic'; known: .*mean-difference"):
        registry.get("find", "magic")


@pytest.mark.parametrize("forward", registry._FORWARDS)
def test_every_forward_leads_to_a_function(forward):
    assert callable(registry.resolve(forward))
