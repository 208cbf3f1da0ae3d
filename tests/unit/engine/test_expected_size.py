from backup_engine.expected_size import measured


def test_the_percentage_relates_to_the_last_size_and_stays_below_100() -> None:
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


def test_beyond_the_last_size_there_is_no_percentage_or_remaining_time() -> None:
    assert measured(101, 100, 5) == {
        "progress_percent": None,
        "estimated_time_remaining": None,
        "more_than_expected": True,
    }
