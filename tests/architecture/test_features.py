"""Adding a feature takes a folder and a line in the list; nothing else needs to change."""

import ast

from holdfast.composition import FEATURES
from tests.architecture.composed import composed_app
from tests.architecture.test_single_places import ROOT, dotted, nodes


def test_every_folder_with_a_feature_is_listed_under_its_own_name() -> None:
    folders = [path.parent.name for path in (ROOT / "server" / "src" / "holdfast").glob("*/feature.py")]

    assert len(folders) > 20
    assert sorted(feature.name for feature in FEATURES) == sorted(folders)


def test_every_router_of_a_feature_is_served() -> None:
    served = {id(route) for route in composed_app().router.routes}
    missing = [
        (feature.name, router.prefix)
        for feature in FEATURES
        for router in feature.routers
        if not served.issuperset(map(id, router.routes))
    ]

    assert missing == []


def test_routes_do_not_use_the_untyped_state_of_the_application() -> None:
    untyped = [
        f"{name}:{node.lineno}"
        for name, found in nodes()
        if name.startswith("holdfast/")
        for node in found
        if isinstance(node, ast.Attribute) and dotted(node).endswith("app.state")
    ]

    assert untyped == []
