"""A folder of runs, and the dashboard's server on it."""

import pytest

from tests.view.served import folder_of_runs, served


@pytest.fixture
def runs(tmp_path):
    return folder_of_runs(tmp_path)


@pytest.fixture
def client(runs):
    with served(runs) as made:
        yield made
