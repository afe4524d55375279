"""What several test files need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in every run, so that a run says something about the change at hand; HYPOTHESIS_PROFILE=default
# searches for new ones.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real ranking data: $PIRANK_DATA, or ../shared/data beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("PIRANK_DATA", beside))
    if not folder.is_dir():
        pytest.skip(
            f"no real data: set PIRANK_DATA to the folder that holds MQ2008 and the others (not {folder})"
        )
    return folder
