from backup_engine.expected_size import measured


def test_the_percentage_is_that_of_the_last_size() -> None:
    assert measured(25, 100, 5) == {
        "progress_percent": 25.0,
        "estimated_time_remaining": 15,
        "more_than_expected": False,
    }
    assert measured(100, 100, None) == {
        "progress_percent": 99.0,
        "estimated_time_remaining": None,
        "more_than_expected": False,
    }


def test_beyond_the_last_size_nothing_is_known() -> None:
    assert measured(101, 100, 5) == {
        "progress_percent": None,
        "estimated_time_remaining": None,
        "more_than_expected": True,
    }
