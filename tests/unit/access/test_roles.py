from typing import Any

import pytest
from sqlalchemy import insert
from sqlalchemy.exc import IntegrityError

from holdfast.access.models import User
from holdfast.access.plans import FEATURES, PLANS, has_feature, require_feature
from holdfast.access.roles import Role
from holdfast.errors import PlanRefusal
from holdfast.kit import clock
from holdfast.settings import Settings
from holdfast.storage.session import Database


def test_roles_are_ordered_by_rank_and_not_alphabetically() -> None:
    assert sorted([Role.ADMIN, Role.VIEWER, Role.OPERATOR]) == [Role.VIEWER, Role.OPERATOR, Role.ADMIN]
    assert Role.ADMIN > Role.OPERATOR >= Role.OPERATOR > Role.VIEWER
    assert not Role.ADMIN < Role.OPERATOR
    assert not Role.VIEWER >= Role.OPERATOR
    assert max(Role.VIEWER, Role.OPERATOR) is Role.OPERATOR


@pytest.mark.parametrize(("column", "word"), [("role", "owner"), ("role", "Admin"), ("all_repositories_role", "admin")])
def test_the_database_refuses_unknown_roles(database: Database, column: str, word: str) -> None:
    table: Any = User.__table__
    values = {
        "username": "x",
        "username_key": "x",
        "password_hash": "x",
        "created_at": clock.now(),
        "updated_at": clock.now(),
    }
    with database.writing() as session:
        session.execute(insert(User).values(**values, role=Role.VIEWER))
    with pytest.raises(IntegrityError), database.writing() as session:
        session.connection().exec_driver_sql(f"UPDATE users SET {table.c[column].name} = '{word}'")


def test_every_feature_belongs_to_a_plan_and_pro_includes_them_all() -> None:
    pro, community = Settings(plan="pro"), Settings(plan="community")
    assert set(FEATURES.values()) <= set(PLANS)
    for feature in FEATURES:
        require_feature(pro, feature)
        assert not has_feature(community, feature)
        with pytest.raises(PlanRefusal):
            require_feature(community, feature)
